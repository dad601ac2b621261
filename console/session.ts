import { signal } from '@preact/signals'

const NAME = 'edge_actor'

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
  if (name !== undefined) localStorage.setItem(NAME, name)
  csrfToken.value = session.csrf_token
  actor.value = localStorage.getItem(NAME) ?? ''
}

/** The session has ended by itself. Views stay as they are, below the login, with what was typed in them. */
export function forgetSession(): void {
  csrfToken.value = null
}

/** The operator has logged out: nothing stays on the page. */
export function endSession(): void {
  localStorage.removeItem(NAME)
  csrfToken.value = null
  actor.value = undefined
}
