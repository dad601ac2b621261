const ROW = 22
const BAR = 14
const TITLE = 34
const NAME_WIDTH = 150
const BAR_WIDTH = 150

/** Of the classes that are used here and in the pictures around. */
export const STYLE = `
.ground{fill:#fff;stroke:#b8c1cc}
.head{font-size:20px;font-weight:bold;fill:#1b2430}
.title{font-size:14px;font-weight:bold;fill:#1b2430}
.note{font-size:11px;fill:#4a5563}
.name{font-size:12px;fill:#1b2430;text-anchor:end}
.ours{font-weight:bold}
.value{font-size:11px;fill:#4a5563}
.edge{fill:#3f6fb5}
.peer{fill:#f0a94a}
.floor{fill:#9aa6b4}
.faint{opacity:.35}
.cut{stroke:#fff;stroke-width:2;fill:none}
.met{fill:#2d7d46;font-weight:bold}
.missed{fill:#b3372f;font-weight:bold}
`

/**
 * One group of bars at a place. A row has a name, a color, and parts: values that lie on one another, the largest last.
 * Returns the SVG and where it ends.
 */
export function drawBars({ x, y, title, note, rows }) {
  const longest = longestBar(rows)
  const lines = rows.map((row, i) => drawRow(row, x, y + TITLE + i * ROW, longest))
  const heading = `<text class="title" x="${x}" y="${y + 14}">${escapeText(title)}</text><text class="note" x="${x}" y="${y + 29}">${escapeText(note)}</text>`
  return { svg: [heading, ...lines].join('\n'), endY: y + TITLE + rows.length * ROW }
}

/** One that is far longer than the rest would leave nothing of them to see: it is drawn cut. Never our own. */
function longestBar(rows) {
  const lengthOf = ({ parts = [0] }) => Math.max(...parts)
  const [longest, second = longest] = rows.toSorted((a, b) => lengthOf(b) - lengthOf(a))
  const isCut = longest.kind !== 'edge' && lengthOf(longest) > 2 * lengthOf(second)
  return isCut ? 1.25 * lengthOf(second) : lengthOf(longest)
}

function drawRow({ name, kind, parts = [], value }, x, y, longest) {
  const barX = x + NAME_WIDTH
  const middle = y + BAR / 2 + 8
  const widths = parts.map((part) => Math.max(1, Math.min(part / longest, 1) * BAR_WIDTH))
  const bars = widths.toReversed().map((width, i) => {
    const isFaint = i < widths.length - 1
    return `<rect class="${kind}${isFaint ? ' faint' : ''}" x="${barX}" y="${y + 3}" width="${width.toFixed(1)}" height="${BAR}" rx="2"/>`
  })
  const end = barX + Math.max(-6, ...widths)
  return [
    `<text class="name${kind === 'edge' ? ' ours' : ''}" x="${barX - 8}" y="${middle}">${escapeText(name)}</text>`,
    ...bars,
    Math.max(0, ...parts) > longest ? `<path class="cut" d="M${end - 16} ${y + 19}l6 -18m4 18l6 -18"/>` : '',
    `<text class="value" x="${(end + 6).toFixed(1)}" y="${middle}">${escapeText(value)}</text>`,
  ].join('')
}

export function escapeText(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
