/** RFC 9110 5.6.2: a token, such as a field's name or a method. */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
