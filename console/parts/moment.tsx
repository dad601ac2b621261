/** Formats a moment in the operator's own zone, and names the zone, which changes twice a year: `2026-01-31 14:03:07 UTC+1`. */
export function momentText(at: string): string {
  const date = new Date(at)
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0')).join('-')
  const parts = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'shortOffset' }).formatToParts(date)
  const zone = parts.find(({ type }) => type === 'timeZoneName')!.value.replace('GMT', 'UTC')
  return `${day} ${date.toLocaleTimeString('en-GB')} ${zone}`
}

/** Shows when something was, with date and zone. */
export function Moment({ at }: { readonly at: string }) {
  return (
    <time class="moment" dateTime={at}>
      {momentText(at)}
    </time>
  )
}
