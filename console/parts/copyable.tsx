import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'

interface CopyableProps {
  readonly text: string
  /** Names it to screen readers, such as `id`. */
  readonly name: string
}

/** Shows a text with a button that copies it. */
export function Copyable({ text, name }: CopyableProps) {
  const shown = useRef<HTMLElement>(null)
  const outcome = useSignal('')
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      outcome.value = 'Copied.'
    } catch {
      // Browsers have no clipboard for a page that came over plain HTTP from another host.
      getSelection()!.selectAllChildren(shown.current!)
      outcome.value = 'Selected: press Ctrl+C.'
    }
  }
  return (
    <span class="copyable">
      <code ref={shown}>{text}</code>
      <button type="button" onClick={() => void copy()}>
        Copy
        <span class="unseen">
          {' '}
          {name} {text}
        </span>
      </button>
      <span role="status" class="note">
        {outcome}
      </span>
    </span>
  )
}
