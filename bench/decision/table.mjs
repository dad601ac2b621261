import { whole } from '../support/numbers.mjs'
import { formatRatio, formatTargets, line } from '../support/text-table.mjs'
import { PER_SECOND } from './fixed-rate.mjs'
import { formatRow } from './measured-row.mjs'

export function formatTable({ machine, load, method, isRough, groups, delays, twoThreads, targets }) {
  return [
    `node ${machine.node}, ${machine.cpu}, ${machine.cores} cores; load: ${load.name}, ${load.details}`,
    `${method.rounds} interleaved rounds of ${method.roundSeconds} s; CPU time is user and system of the whole server; ratios by CPU time`,
    ...groups.flatMap(formatGroup),
    '',
    '! the server could not use its core, or had no use for it: look at CPU time, not at requests/s',
    ...formatDelays(delays, method),
    ...formatThreads(twoThreads),
    ...formatTargets(targets),
    ...(isRough ? ['', '*** THE MACHINE WAS BUSY WITH SOMETHING ELSE: these figures are rough, repeat them on a quiet one ***'] : []),
  ].join('\n')
}

function formatGroup({ title, ratioTitle, rows }) {
  return ['', line(title, 'CPU µs each', 'requests/s', 'busy', ratioTitle, 'middle half'), ...rows.map(formatRow)]
}

function formatDelays(delays, { latencyRounds }) {
  return [
    '',
    line(`delays at ${whole(PER_SECOND)} requests/s, ${latencyRounds} rounds`, 'p50 µs', 'p99 µs'),
    ...delays.map(({ name, isMissing, p50Us, p99Us }) =>
      isMissing ? line(`  ${name}`, 'not installed') : line(`  ${name}`, whole(p50Us), whole(p99Us)),
    ),
  ]
}

function formatThreads({ one, two, ratio, ratioByCpuTime, ratioWithOwnKeys }) {
  return [
    '',
    line('the engine, one table, one rule', 'decisions/s', '', '', 'it : one', 'middle half'),
    line('  one thread', whole(one)),
    line('  two threads', whole(two), '', '', ...formatRatio(ratio)),
    line('  two threads, by CPU time', '', '', '', ...formatRatio(ratioByCpuTime)),
    line('  the same, each with keys of its own', '', '', '', ...formatRatio(ratioWithOwnKeys)),
  ]
}
