import { ApiFailure, ask } from './api.ts'
import { nowMs } from './clock.ts'
import { isLost, lastResponseMs } from './connection.ts'
import { formatCount, formatDuration } from './format.ts'
import { Badge } from './parts/badge.tsx'
import { Ago } from './parts/time.tsx'
import { printable } from './printable.ts'
import { isRetrying, retryNow } from './reconnecting.ts'
import { actor, endSession, isReadOnly } from './session.ts'
import { status, statusPoll } from './status.ts'

/** Shows which instance this is, what it runs, its state, and who is logged in. */
export function Header() {
  const { instance, version, bundle, mode } = status.value ?? {}
  return (
    <header class="instance">
      <a class="skip" href={location.hash} onClick={skipToContent}>
        Skip to content
      </a>
      <a class="brand" href="#/overview">
        edge
      </a>
      <State />
      {instance !== undefined && <span class="fact name">{printable(instance)}</span>}
      {version !== undefined && (
        <span class="fact minor">
          {mode === 'reverse_proxy' ? 'reverse proxy' : 'decision service'} {version}
        </span>
      )}
      {bundle && (
        <span class="fact minor">
          bundle {bundle.version}, applied <Ago at={bundle.applied_at} />
        </span>
      )}
      <span class="who">
        {isReadOnly.value && <Badge tone="accent">Read only</Badge>}
        {actor.value !== '' && <span class="fact minor">{printable(actor.value ?? '')}</span>}
        <button type="button" onClick={() => void logOut()}>
          Log out
        </button>
      </span>
    </header>
  )
}

function State() {
  if (isLost.value) return <LostConnection />
  const failure = statusPoll.failure.value
  // If the session has ended, the login dialog says so.
  if (failure !== undefined && failure.status !== 401) return <NoNews message={failure.message} />
  if (status.value === undefined) return null
  const { bundle, problems, shadow_all: shadowAll } = status.value
  return (
    <>
      {shadowAll !== null && (
        <a href="#/overrides" class="state">
          <Badge tone="warn">Nothing is enforced</Badge>
        </a>
      )}
      {problems.length > 0 && (
        <a href="#/overview" class="state">
          <Badge tone="bad">{formatCount(problems.length, 'problem')}</Badge>
        </a>
      )}
      {problems.length === 0 && bundle === null && <Badge tone="warn">No bundle</Badge>}
      {problems.length === 0 && bundle !== null && shadowAll === null && <Badge tone="good">No problems</Badge>}
    </>
  )
}

/** The last known state may be wrong by now. */
function NoNews({ message }: { readonly message: string }) {
  return (
    <span class="state">
      <Badge tone="bad">State unknown</Badge> {message}
    </span>
  )
}

function LostConnection() {
  // This is not a live region: the age changes every second and would be read out every second.
  const ageS = Math.max(0, Math.floor((Math.max(nowMs.value, Date.now()) - lastResponseMs.value) / 1000))
  return (
    <span class="state">
      <Badge tone="bad">Connection lost</Badge>
      {lastResponseMs.value > 0 && <span>last data {formatDuration(ageS)} ago,</span>}{' '}
      <span>{isRetrying.value ? 'retrying now' : 'retrying'}</span>
      <button type="button" onClick={() => void retryNow()}>
        Retry now
      </button>
    </span>
  )
}

async function logOut(): Promise<void> {
  try {
    await ask('DELETE', 'session')
    endSession(true)
  } catch (error) {
    // A session that had already ended is fine. Otherwise the next visit ends it.
    endSession(error instanceof ApiFailure && error.status === 401)
  }
}

function skipToContent(event: Event): void {
  event.preventDefault()
  document.querySelector<HTMLElement>('main h1')!.focus()
}
