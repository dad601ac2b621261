import { PER_SECOND } from '../decision/fixed-rate.mjs'
import { isBusyEnough } from '../decision/rounds.mjs'
import { whole } from '../support/numbers.mjs'
import { MAX_STEAL_SHARE } from '../support/steal.mjs'
import { CALLS_PER_SECOND } from './grpc.mjs'

export function formatTable({ machine, versions, load, method, isRough, groups, delays, steal, grpc, targets }) {
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
    `  steal: ${percent(steal)}`,
    ...formatGrpc(grpc),
    '',
    line('targets', 'seen', 'wanted'),
    ...targets.map(({ what, value, bound, verdict }) => line(`  ${what}`, value?.toPrecision(2) ?? '', bound, verdict)),
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

function formatGrpc({ costs, delays: { rows, ratio } }) {
  return [
    ...costs.flatMap(({ title, rows }) => [
      '',
      line(`ShouldRateLimit, ${title}`, 'CPU µs'),
      ...rows.map(({ name, cpuUs }) => line(`  ${name}`, cpuUs.toFixed(1))),
    ]),
    '',
    line(`delays at ${whole(CALLS_PER_SECOND)} calls/s, open loop`, 'p50 µs', 'p99 µs', 'p99.9 µs', 'steal', 'calm rounds'),
    ...rows.map(({ name, p50Us, p99Us, p999Us, steal, calmRounds, rounds, isCalm }) =>
      line(
        `  ${name}`,
        whole(p50Us),
        whole(p99Us),
        whole(p999Us),
        percent(steal),
        `${calmRounds} of ${rounds.length}${isCalm ? '' : ' !'}`,
      ),
    ),
    ...(ratio === undefined
      ? []
      : [line('  p99, edge : ratelimit, round by round', ratio.median.toFixed(2), `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}`)]),
    `A round is calm with at most ${percent(MAX_STEAL_SHARE)} steal; figures are of calm rounds. ! there were too few, and figures are of all rounds`,
  ]
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`
}

function line(name, ...columns) {
  return (name.padEnd(44) + columns.map((column) => column.padStart(13)).join('')).trimEnd()
}
