import { once } from 'node:events'
import { parseArgs } from 'node:util'
import type { ChangeJson, ChangesJson, EventJson, RecentEventsJson } from '../../admin/api/instance-types.ts'
import { printableJson } from '../../text/printable.ts'
import { AdminProblem, callerText, UsageProblem } from '../text/caller-values.ts'
import { printable, tableText } from '../text/text-table.ts'
import type { AdminClient, AdminRequest } from './admin-client.ts'
import { type AdminCommand, type AdminQuestion, JSON_OPTION, showOnce } from './admin-command.ts'
import { CHANGES_HELP, EVENTS_HELP } from './help.ts'

/** As long as events are kept. */
const DEFAULT_SINCE = '1h'

/** What happened in the last hour and, with --follow, what happens from then on. */
export const events: AdminCommand = {
  name: 'events',
  help: EVENTS_HELP,
  read(args) {
    const options = {
      ...JSON_OPTION,
      since: { type: 'string', default: DEFAULT_SINCE },
      type: { type: 'string', multiple: true },
      follow: { type: 'boolean', short: 'f', default: false },
      limit: { type: 'string' },
    } as const
    const { since, type, follow, limit, json } = parseArgs({ args, options }).values
    if (follow && limit !== undefined) throw new UsageProblem('expected --follow or --limit, got both')
    const query = { since, ...(type !== undefined && { event: type.join(',') }), ...(limit !== undefined && { limit }) }
    const request: AdminRequest = { method: 'GET', path: follow ? 'events' : 'events/recent', query }
    return { request, isJson: json, describe: eventsText }
  },
  show: (client, question) => (question.request.path === 'events' ? follow(client, question) : showOnce(client, question)),
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Prints events until the operator ends the command or nobody reads its output any more. */
async function follow(client: AdminClient, { request, isJson }: AdminQuestion): Promise<void> {
  const stop = new AbortController()
  const end = (): void => stop.abort()
  for (const signal of SIGNALS) process.once(signal, end)
  process.stdout.once('close', end)
  try {
    for await (const data of client.follow(request, stop.signal)) {
      const hasRoom = process.stdout.write(isJson ? `${printableJson(data)}\n` : eventLine(printable(parsed(data)) as EventJson))
      // A slow reader slows the stream down, and the instance drops what does not fit.
      if (!hasRoom) await once(process.stdout, 'drain', { signal: stop.signal }).catch(() => {})
    }
    if (!stop.signal.aborted) throw new AdminProblem('the stream of events has ended: the instance stops, or something between it and here')
  } finally {
    for (const signal of SIGNALS) process.off(signal, end)
    process.stdout.off('close', end)
  }
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (error) {
    throw new AdminProblem('this version of edge cannot read the events; --json prints them', { cause: error })
  }
}

function eventsText({ since, complete, events: list }: RecentEventsJson): string {
  const some = complete ? '' : 'Some events are missing: there was no room for all, or there are more than --limit.\n'
  if (list.length === 0) return `No events since ${since}.\n${some}`
  return `${list.map(eventLine).join('')}${some}`
}

/** Fields that are shown apart from the others, or not at all. */
const SHOWN_APART = new Set(['time', 'event', 'level', 'msg', 'pid', 'hostname'])
/** Wide enough for most names. */
const NAME_WIDTH = 18

function eventLine(event: EventJson): string {
  const { time, event: name, msg } = event
  const fields = Object.entries(event).filter(([field]) => !SHOWN_APART.has(field))
  const details = fields.map(([field, value]) => ` ${field}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return `${time}  ${name.padEnd(NAME_WIDTH)}  ${String(msg ?? '')}${details.length > 0 ? `:${details.join('')}` : ''}\n`
}

/** Who changed what last, and why. */
export const changes: AdminCommand = {
  name: 'changes',
  help: CHANGES_HELP,
  read(args) {
    const options = { ...JSON_OPTION, since: { type: 'string' }, limit: { type: 'string' } } as const
    const { since, limit, json } = parseArgs({ args, options }).values
    const query = { ...(since !== undefined && { since }), ...(limit !== undefined && { limit }) }
    return { request: { method: 'GET', path: 'changes', query }, isJson: json, describe: changesText }
  },
}

const COLUMNS = [{ head: 'TIME' }, { head: 'BY' }, { head: 'CHANGE' }]

function changesText({ since, complete, changes: list }: ChangesJson): string {
  const covers = `The list covers the time since ${since}.\n`
  const some = complete ? '' : 'Some changes are missing: there was no room for all, or there are more than --limit.\n'
  if (list.length === 0) return `No changes. ${covers}${some}`
  const rows = list.map((change) => [change.time, change.actor ?? '-', changeLine(change)])
  return `${tableText(COLUMNS, rows)}\n${covers}${some}`
}

function changeLine(change: ChangeJson): string {
  const { reason, detail } = change
  const notes = [detail, reason].filter((note) => note !== null)
  return [whatText(change), ...notes].join(': ')
}

function whatText(change: ChangeJson): string {
  const { before, after, source, id, until } = change
  switch (change.change) {
    case 'bundle_applied':
      return `bundle ${after} ${before === null ? 'is the first one' : `in place of ${before}`}, from ${source ?? 'a source without a name'}`
    case 'bundle_refused':
      return `bundle from ${source ?? 'a source without a name'} refused, ${before === null ? 'there is none' : `${before} stays`}`
    case 'bundle_text_read':
      return `credentials of bundle ${id} read in clear`
    case 'override_set':
      return `override ${id} for ${placeText(change)}: ${before === null ? '' : `${before} -> `}${after} until ${until}`
    case 'override_edited':
      return `override ${id} for ${placeText(change)} edited: ${before} -> ${after} until ${until}`
    case 'override_ended':
      return `override ${id} for ${placeText(change)} ended, it was ${before}`
    case 'counter_reset':
      return `counters of ${placeText(change)} reset`
    default:
      return String(change.change) // of a later version
  }
}

function placeText({ policy, rule, values }: ChangeJson): string {
  if (policy === null) return 'all policies'
  return `${policy} ${rule}${values === null ? ', all callers' : ` ${callerText(values)}`}`
}
