import { isLost } from './connection.ts'

/** Announces to screen readers, once, that the connection is lost. */
export function ConnectionAnnouncer() {
  return (
    <p class="unseen" role="status">
      {isLost.value ? 'Connection lost. The data is old.' : ''}
    </p>
  )
}
