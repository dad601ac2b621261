import { signal } from '@preact/signals'

const NAME = 'edge_actor'
/** Only pages of this origin can read this key. It lets a tab that is opened later make changes too, because `GET session` does not return the token. */
const CSRF_TOKEN = 'edge_csrf'
/** Set beside a session that may only look. */
const READ_ONLY = 'edge_read_only'
/** Set while a session that edge could not be asked to end may still be valid. */
const TO_END = 'edge_logged_out'

/** The session's token against forged requests; undefined until the first check, null while nobody is logged in. */
export const csrfToken = signal<string | null | undefined>(undefined)
/** Who is logged in, as the log of changes names them; undefined while no operator's views are open. */
export const actor = signal<string | undefined>(undefined)

/** Whether the session may only look, because it was opened with the token for reading. */
export const isReadOnly = signal(false)

/** `name` is the name given at login. The cookie belongs to the last login in this browser, and so does what is stored beside it. */
export function beginSession(token: string, name: string, mayOnlyLook: boolean): void {
  localStorage.removeItem(TO_END)
  noteReadOnly(mayOnlyLook)
  localStorage.setItem(CSRF_TOKEN, token)
  // Other tabs are notified only of changes, and the name may be the same.
  localStorage.removeItem(NAME)
  localStorage.setItem(NAME, name)
  resumeKept()
}

/** Also keeps it, because other tabs learn of a login by what is stored. */
export function noteReadOnly(mayOnlyLook: boolean): void {
  if (mayOnlyLook) localStorage.setItem(READ_ONLY, '1')
  else localStorage.removeItem(READ_ONLY)
  isReadOnly.value = mayOnlyLook
}

export function keptToken(): string | null {
  return localStorage.getItem(CSRF_TOKEN)
}

/** Continues the session of the last login in this browser. Returns whether it differs from the one that this page knew. */
export function resumeKept(): boolean {
  const before = csrfToken.peek()
  csrfToken.value = keptToken()
  if (csrfToken.value === null) return false
  actor.value = localStorage.getItem(NAME) ?? ''
  return csrfToken.value !== before
}

/** Called when the session has ended by itself. Views stay as they are behind the login, with what was typed in them. */
export function forgetSession(): void {
  csrfToken.value = null
}

/** Called when the operator has logged out, so that nothing stays on the page. `isKnown` says whether edge knows, which makes the cookie useless. */
export function endSession(isKnown: boolean): void {
  localStorage.removeItem(NAME)
  if (isKnown) for (const name of [TO_END, CSRF_TOKEN, READ_ONLY]) localStorage.removeItem(name)
  else localStorage.setItem(TO_END, '1')
  csrfToken.value = null
  actor.value = undefined
}

/** Returns whether the operator has logged out of the session that the cookie belongs to. */
export function isToEnd(): boolean {
  return localStorage.getItem(TO_END) !== null
}

/** Calls back when another tab has logged in. Returns a function that stops this. */
export function onLoginElsewhere(callback: () => void): () => void {
  const listener = ({ key, newValue }: StorageEvent): void => {
    if (key === NAME && newValue !== null) callback()
  }
  addEventListener('storage', listener)
  return () => removeEventListener('storage', listener)
}

// When another tab logs in, the cookie that both tabs send belongs to that login.
addEventListener('storage', ({ key, newValue }) => {
  if (key !== NAME || newValue === null || actor.peek() === undefined) return
  actor.value = newValue
  isReadOnly.value = localStorage.getItem(READ_ONLY) !== null
})
