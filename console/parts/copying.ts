import { type Signal, useSignal } from '@preact/signals'

interface Copying {
  readonly copy: () => void
  /** Says what became of it, for a `role="status"`. */
  readonly outcome: Signal<string>
}

/** Copies a text to the clipboard. Where the browser has none for the page, `select` selects the text instead. */
export function useCopying(text: string, select: () => void): Copying {
  const outcome = useSignal('')
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      outcome.value = 'Copied.'
    } catch {
      // Browsers allow it only over HTTPS and from localhost.
      select()
      outcome.value = 'Selected: press Ctrl+C or ⌘C to copy it.'
    }
  }
  return { copy: () => void copy(), outcome }
}
