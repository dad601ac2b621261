import { useRef } from 'preact/hooks'
import { useCopying } from './copying.ts'

interface CopyableProps {
  readonly text: string
  /** Names it to screen readers, such as `id`. */
  readonly name: string
}

/** Shows a text with a button that copies it. */
export function Copyable({ text, name }: CopyableProps) {
  const shown = useRef<HTMLElement>(null)
  const { copy, outcome } = useCopying(text, () => getSelection()!.selectAllChildren(shown.current!))
  return (
    <span class="copyable">
      <code ref={shown}>{text}</code>
      <button type="button" onClick={copy}>
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
