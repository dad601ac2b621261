import { useRef } from 'preact/hooks'
import { useCopying } from './copying.ts'

interface CommandProps {
  /** Describes the command to screen readers. */
  readonly label: string
  readonly text: string
}

/** Shows a command for a terminal, with a button that copies it. */
export function Command({ label, text }: CommandProps) {
  const field = useRef<HTMLInputElement>(null)
  const { copy, outcome } = useCopying(text, () => field.current!.focus())
  return (
    <div class="command">
      <input class="code" aria-label={label} readOnly value={text} ref={field} onFocus={({ currentTarget }) => currentTarget.select()} />
      <button type="button" onClick={copy}>
        Copy
      </button>
      <span class="quiet" role="status">
        {outcome}
      </span>
    </div>
  )
}
