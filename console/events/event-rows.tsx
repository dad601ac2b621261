import { formatCount, formatNumber } from '../format.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import type { Column } from '../parts/data-table.tsx'
import { PolicyLinks } from '../parts/policy-links.tsx'
import { Moment } from '../parts/time.tsx'
import type { LogEvent } from './event-lines.ts'
import type { EventRow } from './event-log.ts'
import type { RunPlace, SeenRun } from './event-runs.ts'
import { detailsOf, sentenceOf, textOf } from './event-words.ts'

const TONES: Readonly<Record<string, Tone>> = { warn: 'warn', error: 'bad', fatal: 'bad' }
/** Places of a run and sentences of a list that are shown at once; the others are shown on demand. */
const SHOWN_AT_ONCE = 3

/** The columns of the list. `onShowEach` is called if somebody wants to see the events of a run one by one. */
export function eventColumns(onShowEach: (kind: string) => void): readonly Column<EventRow>[] {
  return [
    { title: 'Event', isHeading: true, cell: (row) => ('event' in row ? <EventHead event={row.event} /> : <RunHead run={row} />) },
    {
      title: 'What happened',
      cell: (row) => ('event' in row ? <Happened event={row.event} /> : <RunHappened run={row} onShowEach={() => onShowEach(row.name)} />),
    },
  ]
}

function EventHead({ event: { event, level, time } }: { readonly event: LogEvent }) {
  return (
    <span class="event">
      <Moment at={time} withDate />
      <Kind name={event} level={level} />
    </span>
  )
}

function RunHead({ run: { name, level, to } }: { readonly run: SeenRun }) {
  return (
    <span class="event">
      <Moment at={to} withDate />
      <Kind name={name} level={level} />
    </span>
  )
}

function Kind({ name, level }: { readonly name: string; readonly level: string | undefined }) {
  return (
    <span>
      <Badge tone={TONES[level ?? ''] ?? 'quiet'}>{name}</Badge>
    </span>
  )
}

function Happened({ event }: { readonly event: LogEvent }) {
  const unlogged = Number(event.unlogged) || 0
  return (
    <>
      <p>
        <Place policy={event.policy} rule={event.rule} /> {sentenceOf(event)}
      </p>
      <Details event={event} />
      {unlogged > 0 && <p class="quiet">and {formatCount(unlogged, 'more request')} since the one before</p>}
    </>
  )
}

function Place({ policy, rule }: Pick<LogEvent, 'policy' | 'rule'>) {
  const [policyName, ruleName] = [policy, rule].map((name) => (typeof name === 'string' ? name : undefined))
  if (policyName !== undefined) return <PolicyLinks policy={policyName} rule={ruleName} />
  const names = [policy, rule].map(textOf).filter(Boolean).join(' · ')
  return names === '' ? null : <span>{names}</span>
}

function Details({ event }: { readonly event: LogEvent }) {
  const details = detailsOf(event)
  if (details.length === 0) return null
  return (
    <dl class="details">
      {details.map(({ name, text, list }) => (
        <div key={name} class={list.length > 0 ? 'listed' : undefined}>
          <dt>{name}</dt>
          <dd>{list.length > 0 ? <Sentences texts={list} /> : text}</dd>
        </div>
      ))}
    </dl>
  )
}

function Sentences({ texts }: { readonly texts: readonly string[] }) {
  const [shown, others] = [texts.slice(0, SHOWN_AT_ONCE), texts.slice(SHOWN_AT_ONCE)]
  const items = (some: readonly string[]) => (
    <ul>
      {some.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  )
  return (
    <>
      {items(shown)}
      {others.length > 0 && (
        <details>
          <summary>and {formatNumber(others.length)} more</summary>
          {items(others)}
        </details>
      )}
    </>
  )
}

function RunHappened({ run, onShowEach }: { readonly run: SeenRun; readonly onShowEach: () => void }) {
  const { name, count, from, to, places, elsewhere } = run
  const others = places.slice(SHOWN_AT_ONCE)
  return (
    <>
      <p>
        <strong>{formatCount(count, 'request')}</strong>
        {from !== to && (
          <span class="quiet">
            {' '}
            since <Moment at={from} withDate />
          </span>
        )}{' '}
        <button type="button" class="plain" onClick={onShowEach}>
          Show each<span class="unseen"> {name}</span>
        </button>
      </p>
      <Places places={places.slice(0, SHOWN_AT_ONCE)} />
      {others.length > 0 && (
        <details>
          <summary>and {formatCount(others.length, 'more place')}</summary>
          <Places places={others} />
        </details>
      )}
      {elsewhere > 0 && <p class="quiet">and {formatCount(elsewhere, 'request')} at further places</p>}
    </>
  )
}

function Places({ places }: { readonly places: readonly RunPlace[] }) {
  return (
    <ul class="run-places">
      {places.map(({ policy, rule, reason, count }) => (
        <li key={JSON.stringify([policy, rule, reason])}>
          <span class="number">{formatNumber(count)} ×</span> <Place policy={policy} rule={rule} />{' '}
          <span class="quiet">{textOf(reason)}</span>
        </li>
      ))}
    </ul>
  )
}
