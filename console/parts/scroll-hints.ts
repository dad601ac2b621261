import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

/** Scrolled to within this many pixels of an end, there is nothing more to see there. */
const ROUNDING_PX = 1

export interface ScrollHints<Scrolled extends HTMLElement> {
  readonly ref: RefObject<Scrolled>
  /** Whether the content is wider than its frame. */
  readonly isWide: boolean
}

/**
 * Says where a frame that scrolls has more to see: its classes `more-left`, `more-right` and `more-below` fade the edges concerned. Scroll bars alone do not
 * say so, because many systems hide them until somebody scrolls.
 */
export function useScrollHints<Scrolled extends HTMLElement>(): ScrollHints<Scrolled> {
  const ref = useRef<Scrolled>(null) as RefObject<Scrolled>
  const watched = useRef<{ readonly frame: Scrolled | null; readonly end: () => void } | undefined>(undefined)
  const isWide = useSignal(false)
  const look = (): void => {
    if (ref.current === null) return
    markEdges(ref.current)
    isWide.value = ref.current.scrollWidth > ref.current.clientWidth + ROUNDING_PX
  }
  useLayoutEffect(() => {
    look()
    // The frame may appear later than the component, when there is something to show.
    if (watched.current?.frame === ref.current) return
    watched.current?.end()
    watched.current = { frame: ref.current, end: watch(ref.current, look) }
  })
  useEffect(() => () => watched.current?.end(), [])
  return { ref, isWide: isWide.value }
}

function markEdges({ classList, scrollLeft, scrollTop, clientWidth, clientHeight, scrollWidth, scrollHeight }: HTMLElement): void {
  classList.toggle('more-left', scrollLeft > ROUNDING_PX)
  classList.toggle('more-right', scrollLeft + clientWidth < scrollWidth - ROUNDING_PX)
  classList.toggle('more-below', scrollTop + clientHeight < scrollHeight - ROUNDING_PX)
}

/** Returns a function that ends it. */
function watch(frame: HTMLElement | null, onChange: () => void): () => void {
  if (frame === null) return () => {}
  const observer = new ResizeObserver(onChange)
  observer.observe(frame)
  frame.addEventListener('scroll', onChange, { passive: true })
  return () => {
    observer.disconnect()
    frame.removeEventListener('scroll', onChange)
  }
}
