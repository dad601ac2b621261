import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

/** When a form or a dialog closes and what had the focus before is gone, the focus moves to the heading of the view, not to the top of the page. */
export function useFocusAfter(isOpen: boolean): void {
  const wasOpen = useRef(isOpen)
  useLayoutEffect(() => {
    if (wasOpen.current && !isOpen && document.activeElement === document.body) document.querySelector<HTMLElement>('main h1')!.focus()
    wasOpen.current = isOpen
  }, [isOpen])
}

/** When a control that has the focus is no longer shown, the focus moves to the heading of the view, too. */
export function useFocusKept<Control extends HTMLElement>(): RefObject<Control | null> {
  const control = useRef<Control>(null)
  useLayoutEffect(
    () => () => {
      if (control.current === document.activeElement) document.querySelector<HTMLElement>('main h1')?.focus()
    },
    [],
  )
  return control
}
