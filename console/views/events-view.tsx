import { useSignal } from '@preact/signals'
import { today } from '../clock.ts'
import { eventLog, type LogEvent, type SeenEvent } from '../events/event-log.ts'
import { streamState } from '../events/event-stream.ts'
import { formatCount, formatNumber, formatTime } from '../format.ts'
import { address } from '../navigation.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Field } from '../parts/field.tsx'
import { printable } from '../printable.ts'

/** Number of rows on the page, however many events there are. */
const MAX_ROWS = 200
const TONES: Readonly<Record<string, Tone>> = { warn: 'warn', error: 'bad', fatal: 'bad' }
/** These fields are shown elsewhere in the row, or would add nothing here. */
const COLUMN_FIELDS = new Set(['event', 'time', 'level', 'msg', 'policy', 'rule', 'unlogged'])

/** The message of these events says no more than their name. */
const SAY_NO_MORE = new Set(['reject', 'would_reject'])

const COLUMNS: readonly Column<SeenEvent>[] = [
  {
    title: 'Event',
    isHeading: true,
    cell: ({ event: { event, level, time } }) => (
      <span class="event">
        <time dateTime={time}>{formatTime(time, today.value)}</time>
        <span>
          <Badge tone={TONES[level ?? ''] ?? 'quiet'}>{event}</Badge>
        </span>
      </span>
    ),
  },
  {
    title: 'What happened',
    cell: ({ event }) => (
      <div class="happened">
        <span>{[event.policy, event.rule].map(textOf).filter(Boolean).join(' · ')}</span>
        <span>
          {!SAY_NO_MORE.has(event.event) && `${textOf(event.msg)} `}
          <span class="mono quiet">{fieldsOf(event)}</span>
          {Number(event.unlogged) > 0 && <span class="quiet"> and {formatNumber(Number(event.unlogged))} more</span>}
        </span>
      </div>
    ),
  },
]

/** Shows events as they happen, newest first. */
export function EventsView() {
  const kind = useSignal<string | undefined>(undefined)
  const filter = useSignal(address.value.parameters.get('policy') ?? '')
  const paused = useSignal<{ readonly rows: readonly SeenEvent[]; readonly total: number } | undefined>(undefined)
  const rows = paused.value?.rows ?? eventLog.newest(MAX_ROWS, kind.value, holds(filter.value))
  const choose = (name: string | undefined): void => {
    kind.value = name
    paused.value = undefined
  }
  return (
    <>
      <div class="bar">
        <Field label="Filter">
          {(control) => (
            <input
              {...control}
              type="search"
              placeholder="Policy, rule or text"
              value={filter}
              onInput={({ currentTarget }) => {
                filter.value = currentTarget.value
                paused.value = undefined
              }}
            />
          )}
        </Field>
        <button
          type="button"
          aria-pressed={paused.value !== undefined}
          onClick={() => {
            paused.value = paused.value === undefined ? { rows, total: eventLog.total } : undefined
          }}
        >
          {paused.value === undefined ? 'Pause' : 'Resume'}
        </button>
        <StreamState newer={paused.value && eventLog.total - paused.value.total} />
      </div>
      <Kinds chosen={kind.value} onChoose={choose} />
      <div class="panel bare">
        <DataTable
          caption="Events, the newest first"
          columns={COLUMNS}
          rows={rows}
          rowKey={({ number }) => number}
          empty={eventLog.total === 0 ? 'Nothing has happened since this page was opened.' : 'None of the events that are kept match.'}
        />
      </div>
      <p class="quiet">
        Since this page was opened. Of each kind the last 200 are kept, and up to {MAX_ROWS} are listed. Rejects are sampled: the charts
        count all of them.
      </p>
    </>
  )
}

function StreamState({ newer }: { readonly newer: number | undefined }) {
  const { isOpen, problem } = streamState.value
  if (!isOpen) {
    return (
      <span>
        <Badge tone="warn">Not connected</Badge> {problem}
      </span>
    )
  }
  if (newer !== undefined) return <Badge tone="accent">Paused, {formatCount(newer, 'newer event')}</Badge>
  return <Badge tone="good">Live</Badge>
}

interface KindsProps {
  readonly chosen: string | undefined
  readonly onChoose: (name: string | undefined) => void
}

/** Shows how often each kind has occurred; a click shows only that kind. */
function Kinds({ chosen, onChoose }: KindsProps) {
  const all = { name: undefined, title: 'all', count: eventLog.total }
  const kinds = [all, ...eventLog.counts().map(({ name, count }) => ({ name, title: name, count }))]
  return (
    <ul class="kinds" aria-label="Kinds of events">
      {kinds.map(({ name, title, count }) => (
        <li key={title}>
          <button type="button" aria-pressed={chosen === name} onClick={() => onChoose(name)}>
            {title} <span class="number">{formatNumber(count)}</span>
          </button>
        </li>
      ))}
    </ul>
  )
}

function holds(filter: string): (event: LogEvent) => boolean {
  const wanted = filter.trim().toLowerCase()
  if (wanted === '') return () => true
  return (event) =>
    [event.event, event.policy, event.rule, event.msg, fieldsOf(event)].some((text) => textOf(text).toLowerCase().includes(wanted))
}

function fieldsOf(event: LogEvent): string {
  const fields = Object.entries(event).filter(([name]) => !COLUMN_FIELDS.has(name))
  return fields.map(([name, value]) => `${name}=${textOf(value)}`).join(' ')
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (Array.isArray(value)) return value.map(textOf).join(',')
  return printable(typeof value === 'object' ? JSON.stringify(value) : String(value))
}
