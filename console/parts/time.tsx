import { nowMs } from '../clock.ts'
import { formatDateTime, formatDuration } from '../format.ts'

/** `12 s ago`, with the moment itself as its title. */
export function Ago({ at }: { readonly at: string }) {
  const seconds = Math.max(0, Math.floor((nowMs.value - Date.parse(at)) / 1000))
  return (
    <time dateTime={at} title={formatDateTime(at)}>
      {seconds === 0 ? 'now' : `${formatDuration(seconds)} ago`}
    </time>
  )
}

/** `1 h 12 min`, until a moment that comes; `ended` when it has come. */
export function Countdown({ until }: { readonly until: string }) {
  const seconds = Math.ceil((Date.parse(until) - nowMs.value) / 1000)
  return (
    <time dateTime={until} title={formatDateTime(until)}>
      {seconds <= 0 ? 'ended' : formatDuration(seconds)}
    </time>
  )
}
