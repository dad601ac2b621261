import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { messageOf } from '../api.ts'
import { Notice } from './notice.tsx'

interface FormProps {
  /** Label of the button. */
  readonly action: string
  /** Whether the button warns that the action can do harm. */
  readonly isDangerous?: boolean
  /** Called with the values of the form. If it throws, the error is shown and the form stays as it is. */
  readonly onSubmit: (values: FormData, form: HTMLFormElement) => Promise<void>
  readonly children: ComponentChildren
  /** Shown beside the button. */
  readonly aside?: ComponentChildren
}

/** A form that is submitted at most once at a time and shows errors. */
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
