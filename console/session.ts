import { signal } from '@preact/signals'

/** The session's token against forged requests; undefined before the first look, null while nobody is logged in. */
export const csrfToken = signal<string | null | undefined>(undefined)

export function forgetSession(): void {
  csrfToken.value = null
}
