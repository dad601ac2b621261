import { whole } from '../support/numbers.mjs'
import { drawBars, escapeText, STYLE } from './bar-chart.mjs'
import { PER_SECOND } from './fixed-rate.mjs'

const WIDTH = 940
const TOP = 84
const GAP = 18
const COLUMNS = [32, 492]

/** The results as an SVG that reads on light and dark pages alike: it has a ground of its own. */
export function drawPicture(results) {
  const [oneRule, fiveRules, manyKeys, rejects] = results.groups
  const left = drawColumn(COLUMNS[0], [costBars(oneRule), costBars(rejects), targetLines(results.targets)])
  const right = drawColumn(COLUMNS[1], [costBars(fiveRules), costBars(manyKeys), delayBars(results.delays), threadBars(results.twoThreads)])
  const height = Math.max(left.endY, right.endY) + 20
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc" font-family="Helvetica, Arial, sans-serif">
<title id="title">What a decision costs</title>
<desc id="desc">${escapeText(describe(oneRule))}</desc>
<style>${STYLE}</style>
<rect class="ground" x="1" y="1" width="${WIDTH - 2}" height="${height - 2}" rx="10"/>
<text class="head" x="${COLUMNS[0]}" y="36">What a decision costs</text>
${results.isRough ? `<text class="value" x="${COLUMNS[1]}" y="36"><tspan class="missed">Rough: the machine was busy with something else.</tspan></text>` : ''}
<text class="note" x="${COLUMNS[0]}" y="56">${escapeText(subtitle(results))}</text>
${left.svg}
${right.svg}
</svg>
`
}

/** Blocks below one another; each is a function of its place. */
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
  const bars = rows.map(({ name, isMissing, cpuUs, perSecond }) =>
    isMissing ? missing(name) : { name, kind: kindOf(name), parts: [cpuUs], value: `${cpuUs.toFixed(1)} µs · ${whole(perSecond)}/s` },
  )
  return (x, y) =>
    drawBars({ x, y, title: capital(title), note: 'CPU time a request, shorter is better · requests/s on one core', rows: bars })
}

function delayBars(delays) {
  const bars = delays.map(({ name, isMissing, p50Us, p99Us }) =>
    isMissing ? missing(name) : { name, kind: kindOf(name), parts: [p50Us, p99Us], value: `${whole(p50Us)} · ${whole(p99Us)} µs` },
  )
  const title = `Delays at ${whole(PER_SECOND)} requests/s`
  return (x, y) => drawBars({ x, y, title, note: 'p50 (dark) and p99 (faint), counted from when a request was due', rows: bars })
}

function threadBars({ one, two, ratio }) {
  const bars = [
    { name: 'one thread', kind: 'edge', parts: [one], value: whole(one) },
    { name: 'two threads', kind: 'edge', parts: [two], value: `${whole(two)} · ${ratio.median.toFixed(2)} ×` },
  ]
  return (x, y) => drawBars({ x, y, title: 'The engine on one table', note: 'decisions/s, longer is better', rows: bars })
}

function targetLines(targets) {
  return (x, y) => {
    const lines = targets.map(({ what, ratio, atLeast, verdict }, i) => {
      const figures = ratio === undefined ? '' : `${ratio.toFixed(2)}, target ${atLeast.toFixed(1)}: `
      const lineY = y + 36 + i * 20
      return (
        `<text class="value" x="${x}" y="${lineY}">${escapeText(what)}</text>` +
        `<text class="value" x="${x + 220}" y="${lineY}">${figures}<tspan class="${verdict}">${verdict}</tspan></text>`
      )
    })
    return { svg: [`<text class="title" x="${x}" y="${y + 14}">Targets</text>`, ...lines].join('\n'), endY: y + 36 + targets.length * 20 }
  }
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1)
}

function missing(name) {
  return { name, kind: kindOf(name), value: 'not installed' }
}

function kindOf(name) {
  if (name.startsWith('edge')) return 'edge'
  return name.includes('node:') ? 'floor' : 'peer'
}

function subtitle({ machine, load, method, date }) {
  const core = machine.isServerPinned ? 'server pinned to one core' : 'cores shared'
  return `npm run bench · medians of ${method.rounds} interleaved rounds · node ${machine.node} on ${machine.cpu}, ${core} · load: ${load.name} · ${date}`
}

function describe({ rows }) {
  const known = rows.filter(({ isMissing }) => !isMissing)
  return `CPU time a request with one rule: ${known.map(({ name, cpuUs }) => `${name} ${cpuUs.toFixed(1)} µs`).join(', ')}.`
}
