const plots = JSON.parse(document.getElementById("plots").textContent);

function config() {
  const style = getComputedStyle(document.documentElement);
  const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
  const words = { labelColor: text, titleColor: text };
  return {
    background: null,
    view: { stroke: null },
    axis: { ...words, gridColor: line, domainColor: line, tickColor: line },
    legend: { ...words, symbolLimit: 0 },
  };
}

async function draw() {
  for (const [id, spec] of Object.entries(plots)) {
    await vegaEmbed(`#${id}`, { ...spec, config: config() }, { mode: "vega-lite", actions: false, renderer: "svg" });
  }
  document.body.dataset.drawn = Object.keys(plots).length;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
