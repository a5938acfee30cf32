# Turns the public headers' plain comments into what Doxygen reads:
#
#   a comment that a declaration follows        /**
#   the first comment of a file                 /** @file
#   a comment behind a declaration              /**<
#   a line "name  text", "name [out]  text"     @param name text
#   a line "UCXPOOL_ERR_X  text"                - `UCXPOOL_ERR_X` text
#
# A declaration that follows another one without a blank line shares its
# comment and is pointed to it.

# The line of a comment, with what stands behind " * " read.
function convert(line,    text, name) {
    text = line
    if (!sub(/^ *\* /, "", text)) {
        return line
    }
    if (text ~ /^(UCXPOOL_[A-Z_]+(, UCXPOOL_[A-Z_]+)*|others)(  +.*|,?)$/) {
        name = text
        sub(/  .*/, "", name)
        sub(/^[^ ]*(, [^ ]+)*,? */, "", text)
        gsub(/UCXPOOL_[A-Z_]+/, "`&`", name)
        return " * - " name (text == "" ? "" : ": " text)
    }
    if (text ~ /^[a-z_]+(, [a-z_]+)*(  +| +\[out\] +)[A-Za-z0-9"]/) {
        name = text
        sub(/( +\[out\]|  ).*/, "", name)
        gsub(/ /, "", name)
        in_out = text ~ /^[^\]]* \[out\]/ ? "[out]" : ""
        sub(/^[a-z_]+(, [a-z_]+)*(  +| +\[out\] +)/, "", text)
        sub(/^\[out\] +/, "", text)
        return " * @param" in_out " " name " " text
    }
    return line
}

function flush_comment() {
    if (comment != "") {
        printf "%s", comment
        is_documented = 1
        comment = ""
    }
}

# Inside a block comment.
inside {
    comment = comment convert($0) "\n"
    if ($0 ~ /\*\//) {
        inside = 0
        if (is_first) {
            flush_comment()
            is_documented = 0
            is_first = 0
        }
    }
    next
}

# A comment that begins a line.
/^ *\/\*/ {
    flush_comment()
    line = $0
    if (!seen) {
        seen = 1
        is_first = 1
        sub(/\/\*/, "/** @file\n *", line)
    } else {
        sub(/\/\*/, "/**", line)
    }
    comment = line "\n"
    if (line ~ /\*\//) {
        if (is_first) {
            flush_comment()
            is_first = 0
        }
    } else {
        inside = 1
    }
    next
}

# A comment that nothing follows belongs to nothing.
/^ *$/ {
    flush_comment()
    is_documented = 0
    print
    next
}

{
    # A further declaration of the same paragraph.
    if (comment == "" && ended && depth == 0 && is_documented && first != "" &&
        $0 ~ /^[a-z].*ucxpool_[a-z_]+\(/) {
        print "/** See " first "(). */"
    }
    if (comment != "") {
        first = ""
    }
    if (first == "" && match($0, /ucxpool_[a-z_]+\(/)) {
        first = substr($0, RSTART, RLENGTH - 1)
    }
    flush_comment()
    line = $0
    # A comment behind a declaration may go on in the next line.
    if (sub(/\/\*/, "/**<", line) && line !~ /\*\//) {
        inside = 1
        print line
        comment = ""
        while (inside && (getline > 0)) {
            print
            if ($0 ~ /\*\//) {
                inside = 0
            }
        }
        next
    }
    print line
    depth += gsub(/{/, "{", line) - gsub(/}/, "}", line)
    if (line ~ /extern "C"/) {
        depth = 0
    }
    ended = line ~ /;[^;]*$/
}
