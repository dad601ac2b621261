import type { ChangeJson } from '../../src/admin/api/instance-types.ts'
import { KeyLink } from '../keys/key-facts.tsx'
import { addressOf } from '../navigation.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Caller } from '../parts/caller.tsx'
import type { Column } from '../parts/data-table.tsx'
import { PolicyLinks } from '../parts/policy-links.tsx'
import { Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'

type ChangeName = ChangeJson['change']

const TITLES: Readonly<Record<ChangeName, readonly [title: string, tone: Tone]>> = {
  bundle_applied: ['bundle', 'accent'],
  bundle_refused: ['bundle refused', 'bad'],
  bundle_text_read: ['credentials read', 'warn'],
  override_set: ['override', 'accent'],
  override_edited: ['override edited', 'accent'],
  override_ended: ['override ended', 'quiet'],
  counter_reset: ['reset', 'accent'],
  backend_retried: ['backend tried again', 'accent'],
  key_created: ['key issued', 'accent'],
  key_changed: ['key changed', 'accent'],
  key_revoked: ['key revoked', 'quiet'],
}

export const CHANGE_COLUMNS: readonly Column<ChangeJson>[] = [
  { title: 'Change', isHeading: true, cell: (change) => <ChangeHead change={change} /> },
  { title: 'What changed', cell: (change) => <What change={change} /> },
  { title: 'By whom, and why', cell: (change) => <Why change={change} /> },
]

function ChangeHead({ change: { change, time } }: { readonly change: ChangeJson }) {
  // A later version may know more changes.
  const [title, tone] = TITLES[change] ?? [printable(change), 'quiet']
  return (
    <span class="event">
      <Moment at={time} withDate />
      <span>
        <Badge tone={tone}>{title}</Badge>
      </span>
    </span>
  )
}

function What({ change }: { readonly change: ChangeJson }) {
  const { before, after, source, detail, until } = change
  switch (change.change) {
    case 'bundle_applied':
      return (
        <>
          <p>
            <BundleLink version={after} /> is active{before === null ? ', the first one' : ' in place of '}
            {before !== null && <BundleLink version={before} />}
          </p>
          <Source source={source} />
        </>
      )
    case 'bundle_refused':
      return (
        <>
          <p>
            A bundle was refused;{' '}
            {before === null ? <a href={addressOf('bundle')}>no bundle is active</a> : <BundleLink version={before} />}
            {before !== null && ' stays active'}
          </p>
          {detail !== null && <p class="bad">{printable(detail)}</p>}
          <Source source={source} />
        </>
      )
    case 'bundle_text_read':
      return (
        <p>
          The credentials in <BundleLink version={change.id} /> were read
        </p>
      )
    case 'counter_reset':
      return (
        <>
          <p>The counters were reset</p>
          <Subject change={change} />
          <Note text={detail} />
        </>
      )
    case 'backend_retried':
      return (
        <p>
          <a href={addressOf('backends')}>{printable(change.id ?? '')}</a> was tried at once, before its deadline
        </p>
      )
    case 'key_created':
    case 'key_changed':
    case 'key_revoked':
      return (
        <p>
          {change.id !== null && <KeyLink id={change.id} />}{' '}
          {Object.entries(change.values ?? {}).map(([name, value]) => (
            <span key={name}>{printable(`${name}=${value} `)}</span>
          ))}
          {before !== null && <del>{printable(before)}</del>}
          {until !== null && change.change !== 'key_revoked' && (
            <span class="quiet">
              {' '}
              until <Moment at={until} withDate />
            </span>
          )}
        </p>
      )
    default:
      return (
        <>
          <p>
            <OverrideLink id={change.id} /> <Effect before={before} after={after} />
            {until !== null && change.change !== 'override_ended' && (
              <span class="quiet">
                {' '}
                until <Moment at={until} withDate />
              </span>
            )}
          </p>
          <Subject change={change} />
          <Note text={detail} />
        </>
      )
  }
}

function BundleLink({ version }: { readonly version: string | null }) {
  if (version === null) return <span>a bundle</span>
  return <a href={addressOf('bundle', { version })}>version {version}</a>
}

function OverrideLink({ id }: { readonly id: string | null }) {
  if (id === null) return null
  return (
    <a class="mono" href={addressOf('overrides', { id })}>
      {printable(id)}
    </a>
  )
}

/** Shows what an override did before and does now. */
function Effect({ before, after }: Pick<ChangeJson, 'before' | 'after'>) {
  return (
    <>
      {before !== null && <del>{printable(before)}</del>}
      {before !== null && after !== null && <span class="quiet"> → </span>}
      {after !== null && <ins>{printable(after)}</ins>}
    </>
  )
}

function Subject({ change: { policy, rule, values } }: { readonly change: ChangeJson }) {
  if (policy === null) return <p>all policies</p>
  return (
    <>
      <PolicyLinks policy={policy} rule={rule ?? undefined} />
      {values === null ? <p>all callers</p> : <Caller values={values} />}
    </>
  )
}

function Source({ source }: { readonly source: string | null }) {
  return source === null ? null : (
    <p class="quiet">
      from <code>{printable(source)}</code>
    </p>
  )
}

function Note({ text }: { readonly text: string | null }) {
  return text === null ? null : <p class="quiet">{printable(text)}</p>
}

function Why({ change: { actor, reason } }: { readonly change: ChangeJson }) {
  if (actor === null && reason === null) return <span class="quiet">by whom is not known</span>
  return (
    <>
      <strong>{actor === null ? 'somebody' : printable(actor)}</strong>
      {reason !== null && <p>{printable(reason)}</p>}
    </>
  )
}
