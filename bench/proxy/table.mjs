import { isBusyEnough } from '../decision/rounds.mjs'
import { whole } from '../support/numbers.mjs'
import { EVENTS_PER_SECOND } from './delays.mjs'

export function formatTable({ load, method, isRough, groups, delays, crowds, filter }) {
  return [
    `load: ${load.name}, ${load.details}; ${method.rounds} interleaved rounds of ${method.roundSeconds} s; CPU time is user and system of the whole proxy`,
    ...groups.flatMap(formatGroup),
    ...(delays === undefined ? [] : formatDelays(delays)),
    ...(crowds === undefined ? [] : formatCrowds(crowds)),
    ...(filter === undefined ? [] : formatFilter(filter)),
    ...(groups.length === 0 ? [] : formatTargets(groups)),
    ...(isRough ? ['', '*** THE MACHINE WAS BUSY WITH SOMETHING ELSE: look at ratios only, and repeat this on a quiet one ***'] : []),
  ].join('\n')
}

function formatGroup({ title, unit, rows }) {
  return [
    '',
    line(title, `CPU µs/${unit}`, `${unit}s/s`, 'busy', 'nginx = 1', 'middle half'),
    ...rows.map(({ name, isMissing, cpuUs, perSecond, busy, ratio }) =>
      isMissing
        ? line(`  ${name}`, 'not installed')
        : line(
            `  ${name}`,
            cpuUs.toFixed(1),
            whole(perSecond),
            `${whole(busy * 100)} %${isBusyEnough({ busy }) ? ' ' : '!'}`,
            ...formatRatio(ratio),
          ),
    ),
  ]
}

function formatDelays(delays) {
  return [
    '',
    line(`streams, ${whole(EVENTS_PER_SECOND)} events/s, µs`, 'head p50', 'head p99', 'event p50', 'event p99'),
    ...delays.map((each) => (each.isMissing ? line(`  ${each.name}`, 'not installed') : line(`  ${each.name}`, ...formatDelay(each)))),
    ...delays.flatMap(({ name, added }) => (added === undefined ? [] : [line(`  added by ${name}`, ...formatDelay(added))])),
  ]
}

function formatDelay({ headP50Us, headP99Us, eventP50Us, eventP99Us }) {
  return [headP50Us, headP99Us, eventP50Us, eventP99Us].map(whole)
}

function formatCrowds(crowds) {
  const blocked = crowds.filter(({ loop }) => loop !== undefined)
  return [
    '',
    line('streams at once, usage added by edge', 'lost', 'KiB a stream', 'events/s', 'event p50 ms', 'event p99 ms'),
    ...crowds.map(({ name, streams, instances, isMissing, lost, bytesPerStream, perSecondAsked, eventP50Us, eventP99Us }) =>
      isMissing
        ? line(`  ${whole(streams)}, ${name}`, 'not installed')
        : line(
            `  ${whole(streams)}, ${name}${instances === 1 ? '' : `, ${instances} processes`}`,
            whole(lost),
            (bytesPerStream / 1024).toFixed(1),
            whole(perSecondAsked),
            (eventP50Us / 1000).toFixed(1),
            (eventP99Us / 1000).toFixed(1),
          ),
    ),
    '',
    line('event loop of the worker of edge', 'p50 ms', 'p99.9 ms', 'at most ms'),
    ...blocked.flatMap(({ streams, loop }) => [
      line(`  ${whole(streams)} streams, delay of a timer of ${loop.resolutionMs} ms`, ...formatLoop(loop.delay)),
      line('    CPU time from one timer to the next', ...formatLoop(loop.work)),
    ]),
  ]
}

function formatLoop({ p50Ms, p999Ms, maxMs }) {
  return [p50Ms, p999Ms, maxMs].map((ms) => ms.toFixed(1))
}

function formatFilter(filter) {
  return [
    '',
    line('the filter alone, events/s on one core', 'one a chunk', '16 KiB chunks'),
    ...filter.map(({ name, singlePerSecond, chunkedPerSecond }) => line(`  ${name}`, whole(singlePerSecond), whole(chunkedPerSecond))),
  ]
}

function formatTargets(groups) {
  return [
    '',
    line('targets', 'ratio', 'target', ''),
    ...groups.map(({ target: { what, ratio, bound, verdict } }) => line(`  ${what}`, ratio?.toFixed(2) ?? '', bound, verdict)),
  ]
}

function formatRatio(ratio) {
  return ratio === undefined ? [] : [ratio.median.toFixed(2), `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}`]
}

function line(name, ...columns) {
  return (name.padEnd(50) + columns.map((column) => column.padStart(14)).join('')).trimEnd()
}
