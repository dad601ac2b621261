const ZONE = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'shortOffset' })

/** Formats a moment in the operator's own zone, and names the zone, which changes twice a year: `2026-01-31 14:03:07 UTC+1`. */
export function momentText(at: string): string {
  const date = new Date(at)
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map(twoDigits).join('-')
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(':')
  const zone = ZONE.formatToParts(date)
    .find(({ type }) => type === 'timeZoneName')!
    .value.replace('GMT', 'UTC')
  return `${day} ${clock} ${zone}`
}

function twoDigits(part: number): string {
  return String(part).padStart(2, '0')
}

/** Shows when something was, with date and zone. */
export function Moment({ at }: { readonly at: string }) {
  return (
    <time class="moment" dateTime={at}>
      {momentText(at)}
    </time>
  )
}
