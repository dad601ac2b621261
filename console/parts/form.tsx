import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { messageOf } from '../api.ts'
import { Notice } from './notice.tsx'

interface FormProps {
  /** Of the button. */
  readonly action: string
  /** Of the button, for actions that hurt. */
  readonly isDangerous?: boolean
  /** Gets what was filled in. What it throws is shown, and the form stays as it is. */
  readonly onSubmit: (values: FormData, form: HTMLFormElement) => Promise<void>
  readonly children: ComponentChildren
  /** Beside the button. */
  readonly aside?: ComponentChildren
}

/** Sends once at a time, and shows what went wrong. */
export function Form({ action, isDangerous = false, onSubmit, children, aside }: FormProps) {
  const problem = useSignal('')
  const isBusy = useSignal(false)
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (isBusy.value) return
    const form = event.currentTarget as HTMLFormElement
    isBusy.value = true
    problem.value = ''
    try {
      await onSubmit(new FormData(form), form)
    } catch (error) {
      problem.value = messageOf(error)
    } finally {
      isBusy.value = false
    }
  }
  return (
    <form class="form" onSubmit={submit}>
      {children}
      {problem.value !== '' && (
        <Notice tone="bad" isUrgent>
          {problem}
        </Notice>
      )}
      <div class="actions">
        <button type="submit" class={isDangerous ? 'danger' : 'primary'} aria-disabled={isBusy.value}>
          {action}
        </button>
        {aside}
      </div>
    </form>
  )
}
