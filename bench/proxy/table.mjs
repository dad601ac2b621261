import { formatRow } from '../decision/measured-row.mjs'
import { whole } from '../support/numbers.mjs'
import { formatSteal } from '../support/steal.mjs'
import { formatTargets, line } from '../support/text-table.mjs'
import { EVENTS_PER_SECOND, judgeDelays } from './delays.mjs'
import { judgeSlow } from './slow.mjs'

export function formatTable({ load, method, isRough, slow, groups, delays, crowds, filter }) {
  const targets = [
    ...(slow === undefined ? [] : judgeSlow(slow)),
    ...groups.flatMap(({ target }) => target ?? []),
    ...(delays === undefined ? [] : judgeDelays(delays)),
  ]
  return [
    `load: ${load.name}, ${load.details}; ${method.rounds} interleaved rounds of ${method.roundSeconds} s; CPU time is user and system of the whole proxy`,
    ...(slow === undefined ? [] : slow.flatMap(formatSlow)),
    ...groups.flatMap(formatGroup),
    ...(delays === undefined ? [] : formatDelays(delays)),
    ...(crowds === undefined ? [] : formatCrowds(crowds)),
    ...(filter === undefined ? [] : formatFilter(filter)),
    ...(targets.length === 0 ? [] : formatTargets(targets)),
    ...(isRough ? ['', '*** THE MACHINE WAS BUSY WITH SOMETHING ELSE: look at ratios only, and repeat this on a quiet one ***'] : []),
  ].join('\n')
}

function formatGroup({ title, unit, rows }) {
  return ['', line(title, `CPU µs/${unit}`, `${unit}s/s`, 'busy', 'nginx = 1', 'middle half'), ...rows.map(formatRow)]
}

function formatSlow({ title: asked, rows }) {
  const title = line(`${asked}, µs`, 'CPU', 'nginx = 1', 'p50', 'added', 'p99', 'p99.9', 'steal', 'runs')
  return ['', title, ...rows.map(formatSlowRow)]
}

function formatSlowRow({ name, isMissing, cpuUs, cpuRatio, p50Us, p99Us, p999Us, addedUs, steal, runs, calmRuns }) {
  if (isMissing) return line(`  ${name}`, 'not installed')
  const delays =
    p50Us === undefined ? ['stolen time', '', '', ''] : [p50Us, addedUs, p99Us, p999Us].map((us) => (us === undefined ? '' : whole(us)))
  const mark = calmRuns < runs ? '!' : ' '
  return line(
    `  ${name}`,
    whole(cpuUs),
    cpuRatio?.toFixed(2) ?? '',
    ...delays,
    `${(steal * 100).toFixed(1)} %${mark}`,
    `${calmRuns} of ${runs}`,
  )
}

function formatDelays(delays) {
  return [
    '',
    line(`streams, ${whole(EVENTS_PER_SECOND)} events/s, µs`, 'head p50', 'head p99', 'event p50', 'event p99', 'steal', 'runs'),
    ...delays.map((each) =>
      each.isMissing
        ? line(`  ${each.name}`, 'not installed')
        : line(`  ${each.name}`, ...formatDelay(each), formatSteal(each.steal), `${each.calmRuns} of ${each.runs}`),
    ),
    ...delays.flatMap(({ name, added }) => (added === undefined ? [] : [line(`  added by ${name}`, ...formatDelay(added))])),
  ]
}

function formatDelay({ headP50Us, headP99Us, eventP50Us, eventP99Us }) {
  return headP50Us === undefined ? ['stolen time', '', '', ''] : [headP50Us, headP99Us, eventP50Us, eventP99Us].map(whole)
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
    line('the filter alone, events a second of CPU time', 'one a chunk', '16 KiB chunks'),
    ...filter.map(({ name, singlePerSecond, chunkedPerSecond }) => line(`  ${name}`, whole(singlePerSecond), whole(chunkedPerSecond))),
  ]
}
