import { useLayoutEffect, useRef } from 'preact/hooks'

/** When a form or a dialog closes and what had the focus before is gone, the focus moves to the heading of the view, not to the top of the page. */
export function useFocusAfter(isOpen: boolean): void {
  const wasOpen = useRef(isOpen)
  useLayoutEffect(() => {
    if (wasOpen.current && !isOpen && document.activeElement === document.body) document.querySelector<HTMLElement>('main h1')!.focus()
    wasOpen.current = isOpen
  }, [isOpen])
}
