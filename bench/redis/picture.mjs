import { drawBars } from '../decision/bar-chart.mjs'
import { PER_SECOND } from '../decision/fixed-rate.mjs'
import { capital } from '../decision/picture-blocks.mjs'
import { drawPage } from '../decision/picture-page.mjs'
import { whole } from '../support/numbers.mjs'

/** The results as an SVG. */
export function drawPicture(results) {
  const [hot, cold, saturated] = results.groups.map(costBars)
  return drawPage({
    title: 'What a shared limit costs',
    description: describe(results.groups[0]),
    subtitle: subtitle(results),
    isRough: results.isRough,
    topY: 76,
    columns: [
      [hot, saturated],
      [cold, delayBars(results.delays)],
    ],
  })
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

function subtitle({ machine, versions, load, method, date }) {
  const core = machine.isServerPinned ? 'edge on one core, Redis and the load on the other' : 'cores shared'
  return `npm run bench:redis · medians of ${method.hotRounds} interleaved rounds · node ${machine.node}, Redis ${versions.redis}, ${load.name} · ${core} · ${date}`
}

function describe({ title, rows }) {
  return `CPU time a decision, ${title}: ${rows.map(({ name, cpuUs }) => `${name} ${cpuUs.toFixed(1)} µs`).join(', ')}.`
}
