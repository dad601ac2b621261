import { useSignal } from '@preact/signals'
import { ApiFailure, ask } from './api.ts'
import { csrfToken } from './session.ts'

interface Session {
  readonly csrf_token: string
}

/** Whether the cookie of an earlier visit still counts. */
export async function resumeSession(): Promise<void> {
  try {
    csrfToken.value = (await ask<Session>('GET', 'session')).csrf_token
  } catch {
    csrfToken.value = null
  }
}

export function Login() {
  const problem = useSignal('')
  const logIn = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    try {
      const session = await ask<Session>('POST', 'session', { token: form.get('token'), actor: form.get('actor') })
      csrfToken.value = session.csrf_token
    } catch (error) {
      problem.value = error instanceof ApiFailure ? error.message : 'edge cannot be reached'
    }
  }
  return (
    <main class="login">
      <form onSubmit={logIn}>
        <h1>edge</h1>
        <label>
          Admin token
          <input type="password" name="token" autocomplete="current-password" required />
        </label>
        <label>
          Your name, for the log
          <input name="actor" autocomplete="username" />
        </label>
        <button type="submit">Log in</button>
        <p role="alert">{problem}</p>
      </form>
    </main>
  )
}
