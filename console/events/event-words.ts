import { formatCount, formatDateTime, formatDuration, formatMs, formatNumber } from '../format.ts'
import { printable } from '../printable.ts'
import type { LogEvent } from './event-lines.ts'

/** A field of an event in words. */
export interface EventDetail {
  readonly name: string
  readonly text: string
  /** Sentences that are shown one below the other; empty for all other fields. */
  readonly list: readonly string[]
}

/** These fields are shown elsewhere in the row, or would add nothing here. */
const SHOWN_APART: ReadonlySet<string> = new Set(['event', 'time', 'level', 'msg', 'policy', 'rule', 'unlogged', 'pid', 'hostname'])
/** The message of these events says no more than their name. */
const SAY_NO_MORE: ReadonlySet<string> = new Set(['reject', 'would_reject'])
const LISTS: ReadonlySet<string> = new Set(['problems', 'warnings'])
const NAMES: Readonly<Record<string, string>> = {
  actor: 'by',
  reason: 'reason',
  path: 'file',
  url: 'URL',
  hash: 'sha256',
  id: 'override',
  limit_keys: 'counted by',
  active_version: 'active version',
  err: 'error',
}
const SHOWN_HASH = 12
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/

/** Returns the sentence that the log has about the event. */
export function sentenceOf({ event, msg }: LogEvent): string {
  const text = SAY_NO_MORE.has(event) ? '' : textOf(msg)
  return text === '' ? '' : `${text[0]!.toUpperCase()}${text.slice(1)}`
}

/** Returns the other fields, with names and values that can be read. */
export function detailsOf(event: LogEvent): readonly EventDetail[] {
  return Object.entries(event)
    .filter(([field, value]) => !SHOWN_APART.has(field) && value !== null && value !== undefined)
    .map(([field, value]) => {
      const list = LISTS.has(field) && Array.isArray(value) ? value.map(textOf) : []
      return {
        name: field === 'id' && event.event.startsWith('key_') ? 'key' : (NAMES[field] ?? field.replaceAll('_', ' ')),
        text: list.length > 0 ? '' : valueText(field, value),
        list,
      }
    })
}

/** Returns what a filter looks at. */
export function searchedText(event: LogEvent): string {
  const details = detailsOf(event).map(({ name, text, list }) => `${name} ${text} ${list.join(' ')}`)
  return [event.event, textOf(event.policy), textOf(event.rule), sentenceOf(event), ...details].join(' ').toLowerCase()
}

export function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (Array.isArray(value)) return value.map(textOf).join(', ')
  if (typeof value === 'object') return fieldsText(value)
  return printable(String(value))
}

function valueText(field: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number') return numberText(field, value)
  if (typeof value !== 'string') return textOf(value)
  if (TIME.test(value) && !Number.isNaN(Date.parse(value))) return formatDateTime(value)
  return printable(field === 'hash' ? value.slice(0, SHOWN_HASH) : value)
}

function numberText(field: string, value: number): string {
  if (field.endsWith('_ms')) return formatMs(value)
  if (field.endsWith('_s')) return formatDuration(value)
  if (field.endsWith('_bytes')) return formatCount(value, 'byte')
  if (field === 'percent') return `${formatNumber(value)}%`
  return /(?:^|_)(?:port|pid|worker|status)$/.test(field) ? String(value) : formatNumber(value)
}

function fieldsText(fields: object): string {
  return Object.entries(fields)
    .map(([field, value]) => `${field.replaceAll('_', ' ')} ${valueText(field, value)}`)
    .join(', ')
}
