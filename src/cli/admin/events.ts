import { once } from 'node:events'
import { parseArgs } from 'node:util'
import type { ChangeJson, ChangesJson, EventJson, RecentEventsJson } from '../../admin/api/instance-types.ts'
import { printableJson } from '../../text/printable.ts'
import { REQUEST_EVENTS } from '../../text/request-events.ts'
import { AdminProblem, callerText, UsageProblem } from '../text/caller-values.ts'
import { numberText, printable, tableText } from '../text/text-table.ts'
import type { AdminClient, AdminRequest } from './admin-client.ts'
import { type AdminCommand, type AdminQuestion, JSON_OPTION, showOnce } from './admin-command.ts'
import { CHANGES_HELP, EVENTS_HELP } from './help.ts'

/** As long as events are kept. */
const DEFAULT_SINCE = '1h'
/** As many as an instance keeps. */
const KEPT_EVENTS = 2000

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
    // The newest few hundred may be rejects alone, and hide what caused them.
    const isFolded = !follow && !json && type === undefined
    const count = limit ?? (isFolded ? String(KEPT_EVENTS) : undefined)
    const query = { since, ...(type !== undefined && { event: type.join(',') }), ...(count !== undefined && { limit: count }) }
    const request: AdminRequest = { method: 'GET', path: follow ? 'events' : 'events/recent', query }
    return { request, isJson: json, describe: isFolded ? foldedText : eventsText }
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
  return linesText(list.map(eventLine), since, complete)
}

function linesText(lines: readonly string[], since: string, isComplete: boolean): string {
  const some = isComplete ? '' : 'Some events are missing: there was no room for all, or there are more than --limit.\n'
  return `${lines.length === 0 ? `No events since ${since}.\n` : lines.join('')}${some}`
}

/** Of each kind about requests there is one line until something else happens. */
function foldedText({ since, complete, events: list }: RecentEventsJson): string {
  const runs: EventJson[][] = []
  const open = new Map<string, EventJson[]>()
  for (const event of list) {
    const run = open.get(event.event)
    if (run !== undefined) {
      run.push(event)
      continue
    }
    const begun = [event]
    runs.push(begun)
    if (REQUEST_EVENTS.has(event.event)) open.set(event.event, begun)
    else open.clear()
  }
  return linesText(runs.map(runLine), since, complete)
}

/** A line says at most so many places. */
const MAX_PLACES = 5

function runLine(run: readonly EventJson[]): string {
  const [first] = run
  if (run.length === 1) return eventLine(first!)
  const places = new Map<string, number>()
  for (const { policy, rule, reason, unlogged } of run) {
    const place = [policy, rule, reason].filter((part) => part !== undefined).join(' ')
    places.set(place, (places.get(place) ?? 0) + 1 + (Number(unlogged) || 0))
  }
  const sorted = [...places].sort(([, a], [, b]) => b - a)
  const named = sorted.slice(0, MAX_PLACES).map(([place, count]) => `${numberText(count)} × ${place}`)
  const further = sorted.length - named.length
  const all = numberText(sorted.reduce((sum, [, count]) => sum + count, 0))
  const where = [...named, ...(further > 0 ? [`and at ${further} further places`] : [])].join(', ')
  return `${first!.time}  ${first!.event.padEnd(NAME_WIDTH)}  ${all} requests until ${run.at(-1)!.time}: ${where}\n`
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
    case 'backend_retried':
      return `backend ${id} tried again at once`
    case 'key_created':
      return `key ${id} issued for ${labelsText(change)}${until === null ? '' : `, until ${until}`}`
    case 'key_changed':
      return `key ${id} changed: ${before === null ? '' : `${before} -> `}${labelsText(change)}, ${until === null ? 'without an end' : `until ${until}`}`
    case 'key_revoked':
      return `key ${id} of ${labelsText(change)} revoked`
    default:
      return String(change.change) // of a later version
  }
}

function labelsText({ values }: ChangeJson): string {
  return callerText(values ?? {})
}

function placeText({ policy, rule, values }: ChangeJson): string {
  if (policy === null) return 'all policies'
  return `${policy} ${rule}${values === null ? ', all callers' : ` ${callerText(values)}`}`
}
