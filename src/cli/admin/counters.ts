import { parseArgs } from 'node:util'
import type { Status } from '../../admin/api/instance-types.ts'
import type { CallerValues, CounterJson, CountersJson, CounterUnit, ResetRequest } from '../../admin/api/types.ts'
import { callerText, keysWithDigests, readSubject } from '../text/caller-values.ts'
import { countText, durationText, listText, moneyText, numberText } from '../text/text-table.ts'
import type { AdminClient } from './admin-client.ts'
import { ACTOR_OPTION, type AdminCommand, actorFlag, JSON_OPTION, reasonFlag, showOnce } from './admin-command.ts'
import { COUNTERS_HELP, RESET_HELP } from './help.ts'

/** Values go into the body, because they may be credentials, and URLs are logged everywhere on their way. */
export const counters: AdminCommand = {
  name: 'counters',
  help: COUNTERS_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: JSON_OPTION, allowPositionals: true })
    const body = readSubject(positionals)
    const describe = (response: CountersJson): string => `${countersText(response)}${uncountedText(response)}`
    return { request: { method: 'POST', path: 'counters', body }, isJson: values.json, describe }
  },
}

export const reset: AdminCommand = {
  name: 'reset',
  help: RESET_HELP,
  read(args) {
    const options = { ...JSON_OPTION, ...ACTOR_OPTION, reason: { type: 'string' } } as const
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const body = { ...readSubject(positionals), reason: reasonFlag(values.reason) } satisfies ResetRequest
    let isFleet = false
    const describe = (response: CountersJson): string =>
      `Reset.${isFleet ? ' Other instances of the fleet follow within 2 s.' : ''}\n\n${countersText(response, body.values)}`
    const actor = actorFlag(values.actor)
    const question = { request: { method: 'POST', path: 'counters/reset', body }, actor, isJson: values.json, describe } as const
    const show = async (client: AdminClient): Promise<void> => {
      if (!question.isJson) isFleet = await isInFleet(client)
      await showOnce(client, question)
    }
    return { ...question, show }
  },
}

/** Whether the instance shares its counters. Asked before anything is changed, so that a failure means that nothing was. */
async function isInFleet(client: AdminClient): Promise<boolean> {
  const status = (await client.ask({ method: 'GET', path: 'status' })).json as Partial<Status> | null
  return Boolean(status?.redis)
}

/** Describes what a caller has left of one rule. `given` has the values by which the operator named a caller that may not exist. */
function countersText(response: CountersJson, given: CallerValues = {}): string {
  const { policy, rule, mode, values, unit, counters, holds, override } = response
  const rows: [string, string][] = [
    ['policy', `${policy} (${mode === 'shadow' ? 'shadow: rejects nothing' : mode})`],
    ['rule', rule],
    ['caller', callerText(values)],
  ]
  for (const counter of counters) rows.push([counter.kind, `${levelText(counter, unit)}, ${resetText(counter)}`])
  if (counters.length === 0) rows.push(['limit', 'none: this rule counts nothing'])
  if (typeof holds === 'number') rows.push(['holds', countText(holds, 'request')])
  if (override) rows.push(['override', `${override}, see edge override --list`])
  for (const key of keysWithDigests(given, values)) rows.push(['note', `${key}: this looks like a digest; expected the credential itself`])
  return listText(rows, '')
}

/** Counters are full for a caller that never came as for one that came long ago, so that a misspelled name looks like a good customer. */
function uncountedText({ counters }: CountersJson): string {
  if (counters.length === 0 || counters.some(({ level, limit }) => level < limit)) return ''
  return `Nothing is counted for this caller now: it has not come lately, or its name is misspelled. edge caller shows what is known of it.
`
}

/** Meaning of the remaining number for each kind of counter. */
const LEFT: Readonly<Record<string, string>> = {
  bucket: 'left',
  minute: 'tokens left by the limit per minute',
  day: 'tokens left today',
  window: 'left in this window',
  budget: 'left of the budget',
  in_flight: 'more requests in flight allowed',
}

/** Formats a counter's level, such as `0 of 5 left`, or `0 of 5 requests left` if the unit is known. */
export function levelText({ kind, remaining, limit, level, reserved = 0 }: CounterJson, unit?: CounterUnit): string {
  const debt = level < 0 ? `, ${amountText(-level, kind)} overdrawn` : ''
  const inFlight = reserved > 0 ? `, ${amountText(reserved, kind)} reserved by requests in flight` : ''
  const counted = unit !== undefined && (kind === 'bucket' || kind === 'window') ? `${unit} ` : ''
  return `${amountText(remaining, kind)} of ${amountText(limit, kind)} ${counted}${LEFT[kind] ?? kind}${debt}${inFlight}`
}

/** Says when the counter is full again. */
export function resetText({ kind, reset_s: seconds, remaining, limit }: CounterJson): string {
  if (remaining >= limit) return 'full'
  if (kind === 'in_flight') return 'each is free again when its request ends'
  return `full again in ${durationText(seconds)}`
}

/** Formats an amount in the counter's unit, which for a budget is a hundredth of its currency. */
export function amountText(amount: number, kind: string | undefined): string {
  return kind === 'budget' ? moneyText(amount / 100) : numberText(amount)
}
