import { signal } from '@preact/signals'

const NAME = 'edge_actor'
/** Kept while a session that edge could not be asked to end may still count. */
const TO_END = 'edge_logged_out'

/** The session's token against forged requests; undefined before the first look, null while nobody is logged in. */
export const csrfToken = signal<string | null | undefined>(undefined)
/** Who is logged in, as the log of changes names them; undefined while the page has nobody's views open. */
export const actor = signal<string | undefined>(undefined)

export interface Session {
  readonly csrf_token: string
  readonly expires_at: string
}

/** `name`: as given at the login. The cookie is of the last login in this browser, and so is the name that is kept beside it. */
export function beginSession(session: Session, name?: string): void {
  if (name !== undefined) {
    localStorage.removeItem(TO_END)
    // Other tabs hear of a change only, and the name may be the same.
    localStorage.removeItem(NAME)
    localStorage.setItem(NAME, name)
  }
  csrfToken.value = session.csrf_token
  actor.value = localStorage.getItem(NAME) ?? ''
}

/** The session has ended by itself. Views stay as they are, below the login, with what was typed in them. */
export function forgetSession(): void {
  csrfToken.value = null
}

/** The operator has logged out: nothing stays on the page. `isKnown`: whether edge knows, so that the cookie is of no use any more. */
export function endSession(isKnown: boolean): void {
  localStorage.removeItem(NAME)
  if (isKnown) localStorage.removeItem(TO_END)
  else localStorage.setItem(TO_END, '1')
  csrfToken.value = null
  actor.value = undefined
}

/** Whether the operator has logged out of the session that the cookie is of. */
export function isToEnd(): boolean {
  return localStorage.getItem(TO_END) !== null
}

/** Calls back when another tab has logged in. Returns how to end it. */
export function onLoginElsewhere(callback: () => void): () => void {
  const listener = ({ key, newValue }: StorageEvent): void => {
    if (key === NAME && newValue !== null) callback()
  }
  addEventListener('storage', listener)
  return () => removeEventListener('storage', listener)
}

// Another tab has logged in: the cookie that both send is of that login.
addEventListener('storage', ({ key, newValue }) => {
  if (key === NAME && newValue !== null && actor.peek() !== undefined) actor.value = newValue
})
