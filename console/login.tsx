import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import type { NewSession, SessionJson } from '../src/admin/api/types.ts'
import { ask } from './api.ts'
import { Field } from './parts/field.tsx'
import { Form } from './parts/form.tsx'
import { actor, beginSession, csrfToken, endSession, isToEnd, keptToken, noteReadOnly, onLoginElsewhere, resumeKept } from './session.ts'

/** Resumes the session of an earlier visit if its cookie is still valid. */
export async function resumeSession(): Promise<void> {
  try {
    const session = await ask<SessionJson>('GET', 'session')
    noteReadOnly(session.read_only)
    if (isToEnd()) await endNow()
    else resumeKept()
  } catch {
    csrfToken.value = null
  }
}

async function endNow(): Promise<void> {
  csrfToken.value = keptToken()
  await ask('DELETE', 'session')
  endSession(true)
}

export function LoginPage() {
  const page = useRef<HTMLElement>(null)
  useLayoutEffect(() => page.current!.querySelector('input')!.focus(), [])
  return (
    <main ref={page} class="login">
      <h1>edge</h1>
      <LoginForm />
    </main>
  )
}

/** Appears above the views of an operator whose session has ended, so that nothing that was typed there is lost. */
export function LoginDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  // Not a layout effect, which would end while the dialog is still there: nothing behind it could have the focus back.
  useEffect(() => {
    const before = document.activeElement as HTMLElement
    dialog.current!.showModal()
    // Another tab may have logged in since this one learned that the session had ended.
    void resumeSession()
    const stop = onLoginElsewhere(() => void resumeSession())
    return () => {
      stop()
      giveFocusBack(before)
    }
  }, [])
  return (
    <dialog ref={dialog} class="login" aria-label="Log in again" onCancel={(event) => event.preventDefault()}>
      <h2>Your session has ended</h2>
      <LoginForm />
    </dialog>
  )
}

/** The dialog had taken the focus, which would be lost when it closes. */
function giveFocusBack(before: HTMLElement): void {
  if (before === document.body) return
  const place = before.isConnected ? before : document.querySelector<HTMLElement>('main h1')
  place?.focus()
}

function LoginForm() {
  const logIn = async (values: FormData): Promise<void> => {
    const name = String(values.get('actor')).trim()
    const { csrf_token, read_only } = await ask<NewSession>('POST', 'session', { token: values.get('token'), actor: name })
    beginSession(csrf_token, name, read_only)
  }
  return (
    <Form action="Log in" onSubmit={logIn}>
      <Field label="Admin token" hint="The value of EDGE_ADMIN_TOKEN, or of EDGE_ADMIN_READ_TOKEN to look only.">
        {(control) => <input {...control} type="password" name="token" autocomplete="current-password" required />}
      </Field>
      <Field label="Your name" hint="The log names it with every change.">
        {(control) => <input {...control} name="actor" autocomplete="username" maxLength={128} defaultValue={actor.peek() ?? ''} />}
      </Field>
    </Form>
  )
}
