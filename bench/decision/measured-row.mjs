import { whole } from '../support/numbers.mjs'
import { formatRatio, line } from '../support/text-table.mjs'
import { isBusyEnough } from './rounds.mjs'

/** What was measured of one server. */
export function formatRow({ name, isMissing, cpuUs, perSecond, busy, ratio }) {
  if (isMissing) return line(`  ${name}`, 'not installed')
  const mark = isBusyEnough({ busy }) ? ' ' : '!'
  return line(`  ${name}`, cpuUs.toFixed(1), whole(perSecond), `${whole(busy * 100)} %${mark}`, ...formatRatio(ratio))
}
