import { isBusyEnough } from '../decision/rounds.mjs'
import { whole } from '../support/numbers.mjs'

export function formatGroup({ title, unit, target, rows }) {
  return [
    line(`${title} (target of edge: ${target})`, `CPU µs/${unit}`, `${unit}s/s`, 'busy', 'nginx = 1', 'middle half'),
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
    '',
  ].join('\n')
}

function formatRatio(ratio) {
  return ratio === undefined ? [] : [ratio.median.toFixed(2), `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}`]
}

function line(name, ...columns) {
  return (name.padEnd(46) + columns.map((column) => column.padStart(14)).join('')).trimEnd()
}
