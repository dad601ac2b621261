import { drawBars } from '../decision/bar-chart.mjs'
import { capital, kindOf, missing, targetLines } from '../decision/picture-blocks.mjs'
import { drawPage } from '../decision/picture-page.mjs'
import { whole } from '../support/numbers.mjs'
import { EVENTS_PER_SECOND } from './delays.mjs'

/** The results as an SVG. */
export function drawPicture(results) {
  const bars = new Map(results.groups.map((group) => [group.id, costBars(group)]))
  const of = (...ids) => ids.map((id) => bars.get(id))
  return drawPage({
    title: 'What the reverse proxy costs',
    description: describe(results.groups),
    subtitle: subtitle(results),
    isRough: results.isRough,
    topY: 84,
    columns: [
      [...of('items', 'post', 'documents'), delayBars(results.delays), targetLines(results.groups.flatMap(({ target }) => target ?? []))],
      [...of('plain', 'counted', 'usage'), memoryBars(results.crowds), blockedBars(results.crowds)],
    ],
  })
}

function costBars({ title, unit, rows }) {
  const bars = rows.map(({ name, isMissing, cpuUs, ratio }) =>
    isMissing ? missing(name) : { name, kind: kindOf(name), parts: [cpuUs], value: `${cpuUs.toFixed(1)} µs${ratioText(ratio)}` },
  )
  return (x, y) =>
    drawBars({ x, y, title: capital(title), note: `CPU time per ${unit}, shorter is better · speed beside nginx`, rows: bars })
}

function ratioText(ratio) {
  return ratio === undefined ? '' : ` · ${ratio.median.toFixed(2)}`
}

function delayBars(delays) {
  const bars = delays.map(({ name, isMissing, eventP50Us, eventP99Us, headP50Us }) =>
    isMissing || eventP50Us === undefined
      ? { ...missing(name), value: isMissing ? 'not installed' : 'stolen time' }
      : {
          name,
          kind: kindOf(name),
          parts: [eventP50Us, eventP99Us],
          value: `${whole(eventP50Us)} · ${whole(eventP99Us)} µs · head ${whole(headP50Us)}`,
        },
  )
  const note = 'an event on its way, p50 (dark) and p99 (faint) · p50 of the head'
  return (x, y) => drawBars({ x, y, title: `Delays at ${whole(EVENTS_PER_SECOND)} events/s`, note, rows: bars })
}

function memoryBars(crowds) {
  const bars = crowds.map(({ name, streams, isMissing, bytesPerStream, lost }) => {
    const label = `${whole(streams)}, ${name}`
    if (isMissing) return { ...missing(label), kind: kindOf(name) }
    const kibibytes = bytesPerStream / 1024
    return { name: label, kind: kindOf(name), parts: [kibibytes], value: `${kibibytes.toFixed(1)} KiB · ${whole(lost)} lost` }
  })
  return (x, y) =>
    drawBars({ x, y, title: 'Streams at once', note: 'memory of a stream, shorter is better · streams that were lost', rows: bars })
}

function blockedBars(crowds) {
  const bars = crowds
    .filter(({ loop }) => loop !== undefined)
    .flatMap(({ streams, loop }) => [loopBar(`${whole(streams)}, delay`, loop.delay), loopBar(`${whole(streams)}, CPU time`, loop.work)])
  const note = 'late timers, CPU time between timers · p99.9 (dark), at most (faint)'
  return (x, y) => drawBars({ x, y, title: 'How long a worker of edge is blocked', note, rows: bars })
}

function loopBar(name, { p999Ms, maxMs }) {
  return { name, kind: 'edge', parts: [p999Ms, maxMs], value: `${p999Ms.toFixed(1)} · ${maxMs.toFixed(1)} ms` }
}

function subtitle({ machine, versions, load, method, date }) {
  const core = machine.isServerPinned ? 'proxy pinned to one core' : 'cores shared'
  return `npm run bench:proxy · medians of ${method.rounds} interleaved rounds · node ${machine.node}, nginx ${versions.nginx}, HAProxy ${versions.haproxy}, ${load.name}, ${core} · ${date}`
}

function describe(groups) {
  const sentence = ({ title, unit, rows }) => {
    const known = rows.filter(({ isMissing }) => !isMissing)
    return `CPU time per ${unit}, ${title}: ${known.map(({ name, cpuUs }) => `${name} ${cpuUs.toFixed(1)} µs`).join(', ')}.`
  }
  return groups.map(sentence).join(' ')
}
