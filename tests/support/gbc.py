"""Actor-critics in the forms that GBC has, which cannot be installed: its attributes, its calls, its state."""

import torch
from torch import nn

TERMS = {"joints": 6, "gravity": 3, "command": 3}
WIDTH, REF_WIDTH, ACTIONS = sum(TERMS.values()), 7, 4


class Embedding(nn.Module):
    """The first version: one network makes all tokens of an observation."""

    def __init__(self, width: int, size: int, tokens: int, deep: bool = True):
        super().__init__()
        last = nn.Linear(2 * size, size * tokens) if deep else nn.Linear(width, size * tokens)
        self.embedding = nn.Sequential(nn.Linear(width, 2 * size), nn.GELU(), last) if deep else last
        self.pos_embedding = nn.Embedding(tokens, size)
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.embedding(x).reshape(x.size(0), -1, self.size)
        return tokens + self.pos_embedding(torch.arange(tokens.size(1), device=x.device)).unsqueeze(0)


class TermEmbedding(nn.Module):
    """The second version: each term of an observation is a token."""

    def __init__(self, terms: dict[str, int], size: int):
        super().__init__()
        self.term_names, self.term_dims = list(terms), list(terms.values())
        self.embeddings = nn.ModuleList([nn.Linear(width, size) for width in self.term_dims])
        self.term_embed = nn.Embedding(len(terms), size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = x.split(self.term_dims, dim=1)
        tokens = torch.stack([embed(part) for embed, part in zip(self.embeddings, parts, strict=True)], dim=1)
        return tokens + self.term_embed(torch.arange(tokens.size(1), device=x.device)).unsqueeze(0)


class ElementEmbedding(nn.Module):
    """Each element of an observation is a token."""

    def __init__(self, width: int, size: int):
        super().__init__()
        self.embedding = nn.Linear(1, size)
        self.pos_embedding = nn.Embedding(width, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.embedding(x.unsqueeze(-1)) + self.pos_embedding(torch.arange(x.size(1), device=x.device))


class Transformer(nn.Module):
    """A first token that stands for all, the observation, and the reference, which is padding where it is masked."""

    def __init__(self, obs_embedding: nn.Module, ref_obs_embedding: nn.Module | None, size: int, pooling: bool = False):
        super().__init__()
        self.obs_embedding, self.ref_obs_embedding = obs_embedding, ref_obs_embedding
        self.cls_token, self.sep_token = (nn.Parameter(torch.randn(1, 1, size)) for _ in range(2))
        layer = nn.TransformerEncoderLayer(size, 4, 2 * size, dropout=0.3, activation="gelu", batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(size), enable_nested_tensor=False)
        self.fc = nn.Linear(size, ACTIONS)
        self.pooling = pooling

    def forward(
        self, obs: torch.Tensor, ref_obs: tuple[torch.Tensor, torch.Tensor] | None = None, masks: None = None
    ) -> torch.Tensor:
        first, separator = (token.expand(obs.size(0), -1, -1) for token in (self.cls_token, self.sep_token))
        tokens = [first, self.obs_embedding(obs), separator]
        is_there = torch.ones(obs.size(0), sum(part.size(1) for part in tokens), dtype=torch.bool, device=obs.device)
        if ref_obs is not None:
            assert self.ref_obs_embedding is not None
            values, mask = ref_obs
            reference = torch.cat([self.ref_obs_embedding(values), separator], dim=1) * mask.view(-1, 1, 1)
            tokens.append(reference)
            is_there = torch.cat([is_there, mask.unsqueeze(1).expand(-1, reference.size(1))], dim=1)
        x = self.transformer(torch.cat(tokens, dim=1), src_key_padding_mask=~is_there)
        if self.pooling:
            x = x.masked_fill(~is_there.unsqueeze(-1), 0.0).sum(dim=1) / is_there.sum(dim=1, keepdim=True)
        else:
            x = x[:, 0]
        self.last_hidden_state = x
        return self.fc(x)


class ActorCritic(nn.Module):
    is_recurrent = False

    def __init__(self, actor: nn.Module):
        super().__init__()
        self.actor = actor
        self.critic = nn.Linear(WIDTH, 1)
        self.std = nn.Parameter(torch.ones(ACTIONS))

    def act_inference(
        self, obs: torch.Tensor, reference: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> torch.Tensor:
        return self.actor(obs, reference)


class Memory(nn.Module):
    def __init__(self, kind: str, size: int, layers: int):
        super().__init__()
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](WIDTH, size, layers)
        self.hidden_states: torch.Tensor | tuple[torch.Tensor, ...] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, self.hidden_states = self.rnn(x.unsqueeze(0), self.hidden_states)
        return out.squeeze(0)


class RecurrentActorCritic(nn.Module):
    is_recurrent = True

    def __init__(self, kind: str, size: int = 16, layers: int = 2):
        super().__init__()
        self.memory_a, self.memory_c = Memory(kind, size, layers), Memory(kind, size, layers)
        self.actor = nn.Sequential(nn.Linear(size, 32), nn.ELU(), nn.Dropout(0.2), nn.Linear(32, ACTIONS))

    def act_inference(self, obs: torch.Tensor) -> torch.Tensor:
        return self.actor(self.memory_a(obs))
