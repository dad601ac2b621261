import { signal } from '@preact/signals'

const NAME = 'edge_actor'
/** Known to pages of this address alone, so that a tab which is opened later can make changes too: `GET session` does not return it. */
const CSRF_TOKEN = 'edge_csrf'
/** Kept while a session that edge could not be asked to end may still count. */
const TO_END = 'edge_logged_out'

/** The session's token against forged requests; undefined before the first look, null while nobody is logged in. */
export const csrfToken = signal<string | null | undefined>(undefined)
/** Who is logged in, as the log of changes names them; undefined while the page has nobody's views open. */
export const actor = signal<string | undefined>(undefined)

/** `name`: as given at the login. The cookie is of the last login in this browser, and so is what is kept beside it. */
export function beginSession(token: string, name: string): void {
  localStorage.removeItem(TO_END)
  localStorage.setItem(CSRF_TOKEN, token)
  // Other tabs hear of a change only, and the name may be the same.
  localStorage.removeItem(NAME)
  localStorage.setItem(NAME, name)
  resumeKept()
}

export function keptToken(): string | null {
  return localStorage.getItem(CSRF_TOKEN)
}

/** Goes on with the session of the last login in this browser. Returns whether that is another one than this page knew. */
export function resumeKept(): boolean {
  const before = csrfToken.peek()
  csrfToken.value = keptToken()
  if (csrfToken.value === null) return false
  actor.value = localStorage.getItem(NAME) ?? ''
  return csrfToken.value !== before
}

/** The session has ended by itself. Views stay as they are, below the login, with what was typed in them. */
export function forgetSession(): void {
  csrfToken.value = null
}

/** The operator has logged out: nothing stays on the page. `isKnown`: whether edge knows, so that the cookie is of no use any more. */
export function endSession(isKnown: boolean): void {
  localStorage.removeItem(NAME)
  if (isKnown) for (const name of [TO_END, CSRF_TOKEN]) localStorage.removeItem(name)
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
