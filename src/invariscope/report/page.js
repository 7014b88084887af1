// Draws the figures in the reader's colours. A figure says which palette slot and role a trace has (trace.meta); the colours are
// the page's own custom properties, read anew whenever the scheme, the width class or the medium (print) changes.
(() => {
  "use strict";
  const plots = [...document.querySelectorAll(".plot")];
  if (!plots.length) return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 52rem)");
  const print = matchMedia("print");
  const SLOTS = 8, CONTROLS = 6, PAPER_WIDTH = 680;
  const described = new Map(plots.map((plot) => [plot, JSON.parse(document.getElementById("plot-" + plot.dataset.figure).textContent)]));

  const palette = () => {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue("--" + name).trim();
  };
  const colourOf = (meta, tone) =>
    meta.role === "reference" ? tone("reference") : meta.role === "control" ? tone("control-" + (meta.slot % CONTROLS)) : tone("slot-" + (meta.slot % SLOTS));

  const rgb = (hex) => (hex.length === 4 ? [...hex.slice(1)].map((digit) => digit + digit) : hex.slice(1).match(/../g)).map((part) => parseInt(part, 16));
  const mix = (from, to, share) => `rgb(${rgb(from).map((value, i) => Math.round(value + share * (rgb(to)[i] - value))).join(",")})`;
  const luminance = (parts) => parts.map((value) => value / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  // From next to nothing to the palette's colour, and beyond it towards the ink; where cells have numbers, only as far as these can be read.
  const shades = (colour, tone, written) => {
    let share = 1;
    const shade = (part) => mix(tone("surface"), colour, part);
    while (written && share > 0.1 && contrast(shade(share).match(/\d+/g).map(Number), rgb(tone("ink"))) < 4.7) share -= 0.05;
    return [shade(0.05), shade(share), written ? shade(share) : mix(colour, tone("ink"), 0.5)];
  };
  const SCALE_ROOM = 34;  // the height of a scale of shades with its numbers; what it is the caption says first
  const paintMap = (trace, tone) => {
    const [pale, full, deep] = shades(colourOf(trace.meta, tone), tone, trace.texttemplate);
    const [, under, deepest] = shades(colourOf({ ...trace.meta, slot: trace.meta.slot + 1 }, tone), tone, trace.texttemplate);
    const scale = trace.meta.scale === "diverging" ? [[0, deepest], [0.2, under], [0.5, tone("grid")], [0.8, full], [1, deep]] : [[0, pale], [0.6, full], [1, deep]];
    const bar = { orientation: "h", x: 0, xanchor: "left", y: 1, yref: "container", yanchor: "top", xpad: 0, ypad: 2, len: 240, lenmode: "pixels", thickness: 9, outlinewidth: 1, outlinecolor: tone("rule-strong"), nticks: 5 };
    const text = { color: tone("muted"), size: 11 };
    return {
      ...trace, ...(trace.texttemplate ? { textfont: { ...trace.textfont, color: tone("ink") } } : {}),
      colorscale: scale,
      ...(trace.colorbar ? { colorbar: { ...bar, ...trace.colorbar, tickfont: text, title: { text: "" } } } : {}),
    };
  };

  const paintTrace = (trace, tone) => {
    if (trace.type === "heatmap") return paintMap(trace, tone);
    const colour = colourOf(trace.meta, tone);
    const marker = trace.marker || {};
    const outlined = /open|thin/.test(marker.symbol || "");
    const painted = { ...trace, marker: { ...marker, color: colour, line: { ...marker.line, color: outlined || trace.type === "bar" ? colour : tone("surface") } } };
    if (trace.type === "bar") painted.marker.pattern = { ...marker.pattern, ...(trace.meta.role === "control" ? { fgcolor: colour, bgcolor: tone("surface") } : { fgcolor: tone("surface"), bgcolor: colour, solidity: 0.16 }) };
    else painted.line = { ...trace.line, color: colour };
    // Bands of several seeds lie on one another.
    if (trace.fill === "toself") painted.fillcolor = mix(tone("surface"), colour, 0.2).replace("rgb(", "rgba(").replace(")", ", 0.6)");
    for (const bars of ["error_x", "error_y"]) if (trace[bars]) painted[bars] = { ...trace[bars], color: trace.type === "bar" ? tone("ink") : colour };
    return painted;
  };

  const paintLayout = (layout, tone, small, room, width) => {
    const place = small ? layout.meta.narrow : layout.meta;
    // A panel's title and the key of its lines share one line only where both fit.
    const [left, right] = small ? [0, 1] : layout.xaxis.domain;
    const stacked = width * (right - left) < 420 && layout.annotations.some((note) => note.name === "key");
    const painted = { ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, hovermode: "closest", uirevision: "kept" };
    painted.font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone("ink") };
    painted.hoverlabel = { bgcolor: tone("surface"), bordercolor: tone("rule-strong"), font: { color: tone("ink") } };
    for (const key of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      const axis = layout[key];
      painted[key] = {
        ...axis, domain: place.domains ? place.domains[key] : axis.domain, gridcolor: tone("grid"), zerolinecolor: tone("rule-strong"), linecolor: tone("rule-strong"),
        tickfont: { color: tone("muted") }, title: { ...axis.title, standoff: 8, font: { color: tone("muted"), size: 12 } }, automargin: false,
      };
    }
    painted.annotations = layout.annotations.map((note) => ({
      ...note, font: { ...note.font, color: tone("ink") },
      ...(note.name === "key" ? { x: stacked ? 0 : 1, xanchor: stacked ? "left" : "right" } : stacked && note.name === "title" ? { yshift: note.yshift + 15 } : {}),
    }));
    painted.shapes = layout.shapes.map((shape) => ({
      ...shape, ...(shape.name === "band" ? { fillcolor: tone("grid") } : {}), line: { ...shape.line, color: tone(shape.name === "reference" ? "reference" : "rule-strong") },
      ...(shape.label ? { label: { ...shape.label, font: { ...shape.label.font, color: tone("ink") } } } : {}),
    }));
    painted.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", xref: "container", y: 1, yanchor: "top", yref: "container", font: { color: tone("ink"), size: 12 } };
    painted.margin = { ...(small ? { l: 52, r: 10, b: 48 } : { l: 62, r: 14, b: 52 }), t: (stacked ? 49 : 34) + room };
    // Labels that are words need more room than numbers.
    painted.margin.l = Math.max(painted.margin.l, layout.meta.left || 0);
    painted.width = width;
    painted.height = place.height + painted.margin.t + painted.margin.b;
    return painted;
  };

  // Where each slider stands; a figure without one stands still. On paper, which has no sliders, the last frame is drawn.
  const sliders = new Map(plots.map((plot) => [plot, document.getElementById("frames-" + plot.dataset.figure)]));
  const moved = (plot) => {
    const { data, frames } = described.get(plot), slider = sliders.get(plot);
    if (!slider) return data;
    const now = new Map(frames[print.matches ? frames.length - 1 : slider.valueAsNumber].traces.map(({ trace, ...fields }) => [trace, fields]));
    return data.map((trace, index) => ({ ...trace, ...now.get(index) }));
  };

  const rooms = new Map();  // the height that each legend took when it was last drawn
  const drawOne = (plot, tone, small) => {
    const { layout } = described.get(plot);
    const room = rooms.get(plot) ?? 29;
    // On paper the page is laid out only after this has run, so the width cannot be asked for.
    const painted = paintLayout(layout, tone, small, room, print.matches ? PAPER_WIDTH : plot.clientWidth);
    Plotly.react(plot, moved(plot).map((trace) => paintTrace(trace, tone)), painted, {
      displaylogo: false, displayModeBar: small ? false : "hover", modeBarButtons: [["zoom2d", "resetScale2d", "toImage"]],
      toImageButtonOptions: { format: "svg", filename: plot.dataset.figure },
    });
    const legend = plot.querySelector(".legend");
    const scaled = described.get(plot).data.some((trace) => trace.colorbar);
    const taken = scaled ? SCALE_ROOM : legend ? Math.ceil(legend.getBoundingClientRect().height) : 0;
    rooms.set(plot, taken);
    return taken === room;
  };
  const drawSome = (some) => {
    const tone = palette();
    const small = narrow.matches && !print.matches;
    for (const plot of some) {
      try {
        // How many lines a legend takes is known only once it is drawn: where it is not as expected, the panels move.
        if (!drawOne(plot, tone, small)) drawOne(plot, tone, small);
      } catch (error) {
        // One figure that cannot be drawn must not take the others along.
        console.error(plot.dataset.figure, error);
        plot.textContent = "This figure could not be drawn. The table below holds its numbers.";
      }
    }
  };
  const draw = () => {
    drawSome(plots);
    document.documentElement.dataset.drawn = dark.matches ? "dark" : "light";
  };
  for (const query of [dark, narrow, print]) query.addEventListener("change", draw);
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    // A phone's address bar changes the height all the time; only the width matters.
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 120);
  });
  for (const [plot, slider] of sliders) {
    if (!slider) continue;
    const control = slider.closest(".frames"), output = control.querySelector("output");
    let due = 0;
    slider.addEventListener("input", () => {
      output.textContent = described.get(plot).frames[slider.valueAsNumber].label;
      // Otherwise a screen reader would say the number of the frame.
      slider.setAttribute("aria-valuetext", output.textContent);
      // A finger moves faster than figures are drawn: once a screen is enough.
      cancelAnimationFrame(due);
      due = requestAnimationFrame(() => drawSome([plot]));
    });
    control.hidden = false;
  }
  draw();
})();
