import { drawBars, escapeText, STYLE } from '../decision/bar-chart.mjs'
import { PER_SECOND } from '../decision/fixed-rate.mjs'
import { whole } from '../support/numbers.mjs'

const WIDTH = 940
const TOP = 76
const GAP = 18
const COLUMNS = [32, 492]

/** The results as an SVG that reads on light and dark pages alike: it has a ground of its own. */
export function drawPicture(results) {
  const [hot, cold, saturated] = results.groups.map(costBars)
  const left = drawColumn(COLUMNS[0], [hot, saturated])
  const right = drawColumn(COLUMNS[1], [cold, delayBars(results.delays)])
  const height = Math.max(left.endY, right.endY) + 20
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc" font-family="Helvetica, Arial, sans-serif">
<title id="title">What a shared limit costs</title>
<desc id="desc">${escapeText(describe(results.groups[0]))}</desc>
<style>${STYLE}</style>
<rect class="ground" x="1" y="1" width="${WIDTH - 2}" height="${height - 2}" rx="10"/>
<text class="head" x="${COLUMNS[0]}" y="36">What a shared limit costs</text>
${results.isRough ? `<text class="value" x="${COLUMNS[1]}" y="36"><tspan class="missed">Rough: the machine was busy with something else.</tspan></text>` : ''}
<text class="note" x="${COLUMNS[0]}" y="56">${escapeText(subtitle(results))}</text>
${left.svg}
${right.svg}
</svg>
`
}

function drawColumn(x, blocks) {
  let endY = TOP - GAP
  const parts = []
  for (const block of blocks) {
    const drawn = block(x, endY + GAP)
    parts.push(drawn.svg)
    endY = drawn.endY
  }
  return { svg: parts.join('\n'), endY }
}

function costBars({ title, rows }) {
  const bars = rows.map(({ name, cpuUs, redisCpuUs, roundTrips }) => ({
    name,
    kind: 'edge',
    parts: redisCpuUs === undefined ? [cpuUs] : [cpuUs, cpuUs + redisCpuUs],
    value:
      redisCpuUs === undefined
        ? `${cpuUs.toFixed(1)} µs`
        : `${cpuUs.toFixed(1)} + ${redisCpuUs.toFixed(1)} µs · ${formatTrips(roundTrips)}`,
  }))
  const note = 'CPU time a decision of edge (dark) and of Redis (faint) · round trips a decision'
  return (x, y) => drawBars({ x, y, title: capital(title), note, rows: bars })
}

function delayBars(delays) {
  const bars = delays.map(({ name, p50Us, p99Us }) => ({
    name,
    kind: 'edge',
    parts: [p50Us, p99Us],
    value: `${whole(p50Us)} · ${whole(p99Us)} µs`,
  }))
  const title = `Delays at ${whole(PER_SECOND)} decisions/s, hot keys`
  return (x, y) => drawBars({ x, y, title, note: 'p50 (dark) and p99 (faint), counted from when a request was due', rows: bars })
}

function formatTrips(roundTrips) {
  return roundTrips > 0.5 ? roundTrips.toFixed(1) : roundTrips.toPrecision(2)
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1)
}

function subtitle({ machine, versions, load, method, date }) {
  const core = machine.isServerPinned ? 'edge on one core, Redis and the load on the other' : 'cores shared'
  return `npm run bench:redis · medians of ${method.hotRounds} interleaved rounds · node ${machine.node}, Redis ${versions.redis}, ${machine.cpu}; ${core} · ${load.name} · ${date}`
}

function describe({ title, rows }) {
  return `CPU time a decision, ${title}: ${rows.map(({ name, cpuUs }) => `${name} ${cpuUs.toFixed(1)} µs`).join(', ')}.`
}
