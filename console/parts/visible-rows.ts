import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect } from 'preact/hooks'

/** Rows that are rendered beyond both ends of the visible part, so that a quick scroll does not show a gap. */
const SPARE_ROWS = 12

interface VisibleRows {
  readonly first: number
  /** The index after the last row. */
  readonly last: number
  /** To be called when the frame is scrolled. */
  readonly look: () => void
}

/** Returns which of `count` rows of equal height are in sight in a frame that scrolls, and some around them. */
export function useVisibleRows(frame: RefObject<HTMLElement>, count: number, rowPx: number): VisibleRows {
  const seen = useSignal({ top: 0, height: 0 })
  const look = (): void => {
    // The observer may report once more after the frame is gone.
    if (frame.current === null) return
    const { scrollTop: top, clientHeight: height } = frame.current
    if (top !== seen.value.top || height !== seen.value.height) seen.value = { top, height }
  }
  useLayoutEffect(look)
  useEffect(() => {
    const observer = new ResizeObserver(look)
    observer.observe(frame.current!)
    return () => observer.disconnect()
  }, [])
  const { top, height } = seen.value
  const first = Math.min(Math.max(0, Math.floor(top / rowPx) - SPARE_ROWS), Math.max(0, count - 1))
  return { first, last: Math.min(count, Math.ceil((top + height) / rowPx) + SPARE_ROWS), look }
}
