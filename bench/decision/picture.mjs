import { whole } from '../support/numbers.mjs'
import { drawBars } from './bar-chart.mjs'
import { PER_SECOND } from './fixed-rate.mjs'
import { capital, kindOf, missing, targetLines } from './picture-blocks.mjs'
import { drawPage } from './picture-page.mjs'

/** The results as an SVG. */
export function drawPicture(results) {
  const [oneRule, fiveRules, manyKeys, rejects, doors] = results.groups
  return drawPage({
    title: 'What a decision costs',
    description: describe(oneRule),
    subtitle: subtitle(results),
    isRough: results.isRough,
    topY: 84,
    columns: [
      [costBars(oneRule), costBars(rejects), targetLines(results.targets)],
      [costBars(fiveRules), costBars(manyKeys), costBars(doors), delayBars(results.delays), threadBars(results.twoThreads)],
    ],
  })
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

function subtitle({ machine, load, method, date }) {
  const core = machine.isServerPinned ? 'server pinned to one core' : 'cores shared'
  return `npm run bench · medians of ${method.rounds} interleaved rounds · node ${machine.node} on ${machine.cpu}, ${core} · load: ${load.name} · ${date}`
}

function describe({ rows }) {
  const known = rows.filter(({ isMissing }) => !isMissing)
  return `CPU time a request with one rule: ${known.map(({ name, cpuUs }) => `${name} ${cpuUs.toFixed(1)} µs`).join(', ')}.`
}
