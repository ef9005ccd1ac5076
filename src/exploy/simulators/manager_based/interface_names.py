"""The names of ports that controllers of robots know, and those that a simulator has beside them."""

import re

_WORD = r"[a-zA-Z0-9_]+"
_TABLE = re.compile(
    "|".join(
        (
            rf"obj\.{_WORD}\.joints\.(pos|vel)",
            rf"obj\.{_WORD}\.(?!joints\.){_WORD}\.(pos_b_rt_w_in_w|w_Q_b|lin_vel_b_rt_w_in_b|ang_vel_b_rt_w_in_b)",
            rf"sensor\.imu\.{_WORD}\.(lin_vel_b_rt_w_in_b|ang_vel_b_rt_w_in_b|w_Q_b)",
            rf"sensor\.ray_caster\.{_WORD}\.height",
            rf"cmd\.(se2_velocity|se3_pose|boolean|float|joint_pos)\.{_WORD}",
            rf"output\.joint_targets\.{_WORD}\.(pos|vel|effort)",
            rf"output\.se2_velocity\.{_WORD}",
        )
    )
)


def name_part(name: str) -> str:
    """A name as one part of the name of a port: other characters than letters, digits and `_` become `_`."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def is_known_to_robots(name: str) -> bool:
    """Whether a port has one of the names that controllers of robots look for."""
    return _TABLE.fullmatch(name) is not None
