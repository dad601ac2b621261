import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'

interface CommandProps {
  /** Describes the command to screen readers. */
  readonly label: string
  readonly text: string
}

/** Shows a command for a terminal, with a button that copies it. */
export function Command({ label, text }: CommandProps) {
  const field = useRef<HTMLInputElement>(null)
  const outcome = useSignal('')
  const copy = async (): Promise<void> => {
    field.current!.focus()
    field.current!.select()
    try {
      await navigator.clipboard.writeText(text)
      outcome.value = 'Copied.'
    } catch {
      // Browsers allow it only over HTTPS and from localhost.
      outcome.value = 'Selected: press Ctrl+C or ⌘C to copy it.'
    }
  }
  return (
    <div class="command">
      <input class="code" aria-label={label} readOnly value={text} ref={field} onFocus={({ currentTarget }) => currentTarget.select()} />
      <button type="button" onClick={() => void copy()}>
        Copy
      </button>
      <span class="quiet" role="status">
        {outcome}
      </span>
    </div>
  )
}
