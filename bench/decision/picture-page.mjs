import { escapeText, STYLE } from './bar-chart.mjs'

const WIDTH = 940
const GAP = 18
const COLUMNS = [32, 492]

/**
 * An SVG of two columns of blocks, each a function of its place. It reads on light and dark pages alike: it has a ground
 * of its own.
 */
export function drawPage({ title, description, subtitle, isRough, topY, columns }) {
  const [left, right] = columns.map((blocks, i) => drawColumn(COLUMNS[i], topY, blocks))
  const height = Math.max(left.endY, right.endY) + 20
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc" font-family="Helvetica, Arial, sans-serif">
<title id="title">${escapeText(title)}</title>
<desc id="desc">${escapeText(description)}</desc>
<style>${STYLE}</style>
<rect class="ground" x="1" y="1" width="${WIDTH - 2}" height="${height - 2}" rx="10"/>
<text class="head" x="${COLUMNS[0]}" y="36">${escapeText(title)}</text>
${isRough ? `<text class="value" x="${COLUMNS[1]}" y="36"><tspan class="missed">Rough: the machine was busy with something else.</tspan></text>` : ''}
<text class="note" x="${COLUMNS[0]}" y="56">${escapeText(subtitle)}</text>
${left.svg}
${right.svg}
</svg>
`
}

/** Blocks below one another. */
function drawColumn(x, topY, blocks) {
  let endY = topY - GAP
  const parts = []
  for (const block of blocks) {
    const drawn = block(x, endY + GAP)
    parts.push(drawn.svg)
    endY = drawn.endY
  }
  return { svg: parts.join('\n'), endY }
}
