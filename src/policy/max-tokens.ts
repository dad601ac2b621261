/** RFC 9651: structured fields, and so the RateLimit header, carry integers of at most 15 digits. */
export const MAX_AMOUNT = 999_999_999_999_999
