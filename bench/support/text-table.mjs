import { formatSteal } from './steal.mjs'

const NAME_WIDTH = 50
const COLUMN_WIDTH = 14

export function line(name, ...columns) {
  return (name.padEnd(NAME_WIDTH) + columns.map((column) => column.padStart(COLUMN_WIDTH)).join('')).trimEnd()
}

export function formatRatio(ratio) {
  return ratio === undefined ? [] : [ratio.median.toFixed(2), `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}`]
}

export function formatTargets(targets) {
  return [
    '',
    line('targets', 'measured', 'target', '', 'steal'),
    ...targets.map(({ what, ratio, bound, verdict, steal }) =>
      line(`  ${what}`, ratio?.toFixed(2) ?? '', bound, verdict, steal === undefined ? '' : formatSteal(steal)),
    ),
  ]
}
