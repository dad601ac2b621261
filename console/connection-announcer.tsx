import { isLost } from './connection.ts'

/** Says once that the connection is lost, and once that it is back: nothing else on the page speaks by itself. */
export function ConnectionAnnouncer() {
  return (
    <p class="unseen" role="status">
      {isLost.value ? 'Connection lost. The data is old.' : ''}
    </p>
  )
}
