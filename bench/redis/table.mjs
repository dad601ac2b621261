import { PER_SECOND } from '../decision/fixed-rate.mjs'
import { isBusyEnough } from '../decision/rounds.mjs'
import { whole } from '../support/numbers.mjs'

export function formatTable({ machine, versions, load, method, isRough, groups, delays, targets }) {
  return [
    `node ${machine.node}, Redis ${versions.redis}, ${machine.cpu}, ${machine.cores} cores; load: ${load.name}, ${load.details}`,
    `edge on one core; Redis and the load on the other; ${method.hotRounds} and ${method.otherRounds} interleaved rounds of ${method.roundSeconds} s`,
    ...groups.flatMap(formatGroup),
    '',
    'All but decisions/s and busy is per decision. Of embedded: decisions in the same CPU time of edge, embedded = 1.',
    '! edge could not use its core: it waited for Redis and for the load. Look at CPU time, not at decisions/s',
    '',
    line(`delays at ${whole(PER_SECOND)} decisions/s, hot keys`, 'p50 µs', 'p99 µs'),
    ...delays.map(({ name, p50Us, p99Us }) => line(`  ${name}`, whole(p50Us), whole(p99Us))),
    '',
    line('targets', 'seen', 'wanted'),
    ...targets.map(({ what, value, bound, verdict }) => line(`  ${what}`, value.toPrecision(2), bound, verdict)),
    ...(isRough ? ['', '*** THE MACHINE WAS BUSY WITH SOMETHING ELSE: these figures are rough, repeat them on a quiet one ***'] : []),
  ].join('\n')
}

function formatGroup({ title, rows }) {
  return [
    '',
    line(title, 'CPU µs', 'of embedded', 'middle half', 'decisions/s', 'busy', 'round trips', 'Redis CPU µs'),
    ...rows.map(({ name, cpuUs, ratio, perSecond, busy, roundTrips, redisCpuUs }) =>
      line(
        `  ${name}`,
        cpuUs.toFixed(1),
        ratio?.median.toFixed(2) ?? '',
        ratio === undefined ? '' : `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}`,
        whole(perSecond),
        `${whole(busy * 100)} %${isBusyEnough({ busy }) ? ' ' : '!'}`,
        ...(roundTrips === undefined ? [] : [roundTrips.toFixed(4), redisCpuUs.toFixed(2)]),
      ),
    ),
  ]
}

function line(name, ...columns) {
  return (name.padEnd(44) + columns.map((column) => column.padStart(13)).join('')).trimEnd()
}
