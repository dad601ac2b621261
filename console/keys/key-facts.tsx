import type { KeyJson, KeyLabelsJson } from '../../src/admin/api/key-types.ts'
import { nowMs } from '../clock.ts'
import { addressOf } from '../navigation.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Moment, Until } from '../parts/time.tsx'
import { printable } from '../printable.ts'

type KeyState = 'active' | 'soon' | 'expired' | 'revoked'

const STATES: Readonly<Record<KeyState, readonly [text: string, tone: Tone]>> = {
  active: ['Active', 'good'],
  soon: ['Expires soon', 'warn'],
  expired: ['Expired', 'quiet'],
  revoked: ['Revoked', 'bad'],
}
const SOON_MS = 7 * 86_400_000

/** A key may expire while the page shows it. */
function stateOf({ status, expires_at: end }: KeyJson, atMs: number): KeyState {
  if (status === 'revoked') return 'revoked'
  const leftMs = end === null ? Number.POSITIVE_INFINITY : Date.parse(end) - atMs
  if (status === 'expired' || leftMs <= 0) return 'expired'
  return leftMs <= SOON_MS ? 'soon' : 'active'
}

/** Shows whether a key is of use, and plainly if a restart ends it. */
export function KeyStateBadge({ keyJson }: { readonly keyJson: KeyJson }) {
  const [text, tone] = STATES[stateOf(keyJson, nowMs.value)]
  return (
    <>
      <Badge tone={tone}>{text}</Badge>
      {!keyJson.durable && (
        <>
          {' '}
          <Badge tone="warn">Not saved</Badge>
        </>
      )}
    </>
  )
}

interface KeyLabelsProps {
  readonly labels: KeyLabelsJson
  /** If given, each label is a button that calls it. */
  readonly onChoose?: (name: string, value: string) => void
}

export function KeyLabels({ labels, onChoose }: KeyLabelsProps) {
  return (
    <ul class="labels">
      {Object.entries(labels).map(([name, value]) => (
        <li key={name}>
          {onChoose === undefined ? (
            <code>{labelText(name, value)}</code>
          ) : (
            <button type="button" class="code" onClick={() => onChoose(name, value)}>
              <span class="unseen">Only </span>
              {labelText(name, value)}
            </button>
          )}
        </li>
      ))}
    </ul>
  )
}

export function labelText(name: string, value: string): string {
  return printable(`${name}=${value}`)
}

export function KeyEnd({ end }: { readonly end: KeyJson['expires_at'] }) {
  return end === null ? <>never</> : <Until until={end} />
}

/** Shows why a key was issued and by whom, and who changed or revoked it last. */
export function KeyOrigin({ keyJson: { actor, reason, edited, status } }: { readonly keyJson: KeyJson }) {
  return (
    <>
      {printable(reason)}
      <p class="note">{printable(actor)}</p>
      {edited !== null && (
        <p class="note">
          {status === 'revoked' ? 'Revoked' : 'Changed'} by {printable(edited.actor)}, <Moment at={edited.at} />: {printable(edited.reason)}
        </p>
      )}
    </>
  )
}

/** Links to the view of a key; `text` is shown in place of its id. */
export function KeyLink({ id, text = id }: { readonly id: string; readonly text?: string }) {
  return (
    <a class="mono" href={addressOf('key', { id })}>
      {printable(text)}
    </a>
  )
}

/** Returns the id of the issued key that a caller is known by, as in `key:0123456789ab`; undefined for other callers. */
export function keyIdIn(callerId: string | undefined): string | undefined {
  return /^key:([0-9a-f]{12})$/.exec(callerId ?? '')?.[1]
}

/** The sentence for keys that end with the process. */
export const NOT_SAVED =
  'A restart ends keys that are not saved: there is neither EDGE_KEYS_FILE nor Redis. Set one of them before you hand out keys that should last.'
