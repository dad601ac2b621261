import { nowMs, today } from '../clock.ts'
import { formatDateTime, formatDuration, formatMoment } from '../format.ts'

/** Shows a time with its zone, and with its date if it is not today, or always where a list goes back over days. */
export function Moment({ at, withDate = false }: { readonly at: string; readonly withDate?: boolean }) {
  return (
    <time class="moment" dateTime={at} title={formatDateTime(at)}>
      {withDate ? formatDateTime(at) : formatMoment(at, today.value)}
    </time>
  )
}

/** Shows an age such as `12 s ago`, with the exact time as its title. */
export function Ago({ at }: { readonly at: string }) {
  const seconds = Math.max(0, Math.floor((nowMs.value - Date.parse(at)) / 1000))
  return (
    <time dateTime={at} title={formatDateTime(at)}>
      {seconds === 0 ? 'now' : `${formatDuration(seconds)} ago`}
    </time>
  )
}

/** Shows the time left until a moment, such as `1 h 12 min`, and then `ended`. */
export function Countdown({ until }: { readonly until: string }) {
  const seconds = Math.ceil((Date.parse(until) - nowMs.value) / 1000)
  return (
    <time dateTime={until} title={formatDateTime(until)}>
      {seconds <= 0 ? 'ended' : formatDuration(seconds)}
    </time>
  )
}

/** Shows when something ends: the moment, and the time left until then. */
export function Until({ until }: { readonly until: string }) {
  return (
    <>
      <Moment at={until} />
      <span class="left">
        {Date.parse(until) > nowMs.value ? 'in ' : ''}
        <Countdown until={until} />
      </span>
    </>
  )
}
