import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { LogEvent } from '../events/event-lines.ts'
import { type EventRow, eventLog } from '../events/event-log.ts'
import { eventColumns } from '../events/event-rows.tsx'
import { streamState } from '../events/event-stream.ts'
import { searchedText } from '../events/event-words.ts'
import { formatCount } from '../format.ts'
import { address } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { FilterField } from '../parts/field.tsx'
import { Kinds } from '../parts/kinds.tsx'

/** Number of rows on the page, however many events there are. */
const MAX_ROWS = 200

/** Shows the events of the last hour, and those that happen, newest first. */
export function EventsView() {
  const kind = useSignal(address.peek().parameters.get('kind') ?? undefined)
  const filter = useSignal(address.peek().parameters.get('policy') ?? '')
  const paused = useSignal<{ readonly rows: readonly EventRow[]; readonly total: number } | undefined>(undefined)
  const choose = (name: string | undefined): void => {
    kind.value = name
    paused.value = undefined
  }
  const columns = useMemo(() => eventColumns(choose), [])
  const isWanted = holds(filter.value)
  const current = (): readonly EventRow[] =>
    kind.value === undefined ? eventLog.ofAll(MAX_ROWS, isWanted) : eventLog.ofKind(kind.value, MAX_ROWS, isWanted)
  const rows = paused.value?.rows ?? current()
  return (
    <>
      <div class="bar">
        <FilterField
          placeholder="Policy, rule or text"
          value={filter}
          onChange={() => {
            paused.value = undefined
          }}
        />
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
      <Kinds label="Kinds of events" kinds={kindsWith(kind.value)} chosen={kind.value} onChoose={choose} />
      <div class="panel bare log">
        <DataTable
          caption="Events, the newest first"
          columns={columns}
          rows={rows}
          rowKey={({ number }) => number}
          empty={
            eventLog.total === 0 ? 'Nothing has happened in the last hour, or since edge was started.' : 'No event that is kept matches.'
          }
        />
      </div>
      <p class="quiet">
        The list begins with what edge keeps of the hour before this page was opened. Of each kind the last 200 are kept here, and up to{' '}
        {MAX_ROWS} rows are listed. Among all kinds, events about requests are counted in one row until something else happens. Rejects are
        sampled: the charts count all of them.
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

/** How often each kind has occurred. */
function kindsWith(
  chosen: string | undefined,
): readonly { readonly name: string | undefined; readonly title: string; readonly count: number }[] {
  const counts = eventLog.counts()
  // The address may name a kind that has not occurred.
  const missing = chosen === undefined || counts.some(({ name }) => name === chosen) ? [] : [{ name: chosen, count: 0 }]
  const named = [...counts, ...missing].map(({ name, count }) => ({ name, title: name, count }))
  return [{ name: undefined, title: 'all', count: eventLog.total }, ...named]
}

function holds(filter: string): (event: LogEvent) => boolean {
  const wanted = filter.trim().toLowerCase()
  return wanted === '' ? () => true : (event) => searchedText(event).includes(wanted)
}
