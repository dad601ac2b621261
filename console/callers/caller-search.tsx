import { useLayoutEffect, useRef } from 'preact/hooks'
import { messageOf } from '../api.ts'
import { openCaller } from './asked-caller.ts'
import { readAsked } from './read-asked.ts'

/**
 * Finds a caller from every view. What is typed may be a credential: it is sent in a body, and neither the address nor the browser keeps it. On a phone it
 * is a sign at the end of the navigation, and covers the navigation while it has the focus.
 */
export function CallerSearch() {
  const field = useRef<HTMLInputElement>(null)
  const before = useRef<Element | null>(null)
  useLayoutEffect(() => onSlash(() => field.current!.focus()), [])
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const input = field.current!
    try {
      openCaller(readAsked(input.value))
      input.value = ''
      input.blur()
    } catch (error) {
      input.setCustomValidity(messageOf(error))
      input.reportValidity()
    }
  }
  return (
    <search class="find">
      <form onSubmit={submit} noValidate>
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <circle cx="7" cy="7" r="4.5" />
          <path d="m10.5 10.5 4 4" />
        </svg>
        <input
          ref={field}
          type="search"
          aria-label="Find a caller"
          aria-keyshortcuts="/"
          title="KEY=VALUE, such as header:x-api-key=acme, or a value alone. The key / comes here from anywhere."
          placeholder="Find a caller: KEY=VALUE or a value"
          autocomplete="off"
          autocapitalize="off"
          autocorrect="off"
          spellcheck={false}
          enterkeyhint="search"
          onFocus={({ relatedTarget }) => (before.current = relatedTarget as Element | null)}
          onInput={({ currentTarget }) => currentTarget.setCustomValidity('')}
          onKeyDown={(event) => {
            // The first Escape empties the field, which the browser does by itself.
            if (event.key === 'Escape' && event.currentTarget.value === '') goBack(before.current)
          }}
        />
        <span class="key" aria-hidden="true">
          /
        </span>
        <button type="submit">Find</button>
      </form>
    </search>
  )
}

/** Calls back when somebody types `/` where it means nothing else. Returns a function that stops this. */
function onSlash(callback: () => void): () => void {
  const listener = (event: KeyboardEvent): void => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
    const { target } = event
    if (target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'))) return
    // What is behind a dialog cannot be reached.
    if (document.querySelector('dialog[open]') !== null) return
    event.preventDefault()
    callback()
  }
  addEventListener('keydown', listener)
  return () => removeEventListener('keydown', listener)
}

function goBack(before: Element | null): void {
  if (before instanceof HTMLElement && before.isConnected) before.focus()
  else document.querySelector<HTMLElement>('main h1')!.focus()
}
